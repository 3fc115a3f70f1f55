"""The words for what stands under `loop:`: its conversation, and the input of its iterations."""

from __future__ import annotations

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.kinds.loop_block import LoopBlock
from holdfast.blueprint.kinds.phrases import agent_phrase
from holdfast.blueprint.words.text import Vocabulary, enumerate_words, say_template


def conversation_sentence(block: LoopBlock) -> str:
    """Return the sentence about the conversation a loop keeps."""
    source = f" and of {block.ai_turn_source}" if block.ai_turn_source is not None else ""
    kept = f"It keeps the conversation: the turns of the person{source}"
    shorter = block.history_management
    if shorter is None:
        return f"{kept}."
    amounts = [say_count(shorter.max_turns, "turn")] if shorter.max_turns is not None else []
    amounts += [say_count(shorter.max_tokens, "token")] if shorter.max_tokens is not None else []
    summary = f"{agent_phrase(shorter.agent or '')} summarises older turns"
    rest = summary if shorter.strategy == "summarize" else "older turns are dropped"
    return f"{kept}; above {enumerate_words(amounts, 'or')}, {rest}."


def next_input_sentences(block: LoopBlock, names: Vocabulary) -> list[str]:
    """Return the sentence about the input of later iterations, unless it is the previous result."""
    if block.iteration_input_mapper is not None:
        return [f"Each further iteration begins with the result of the function {block.iteration_input_mapper}."]
    match block.propagation.next_input:
        case "previous_output":
            return []
        case "context":
            return ["Each further iteration begins with the context."]
        case "auto":
            return ["Each further iteration begins with the context if a step writes it, else with the last result."]
        case template:
            return [f"Each further iteration begins with {say_template(template, names)}."]
