"""The words in which a person is asked whether a call is made again, a table per language: plans use them."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.blueprint.questions.agreement import Language


class RepeatWords(NamedTuple):
    """The words of one language; `{}` are filled in."""

    again: str
    """The question whether a tool may be called again."""
    step: str
    """The step that has made the call, by its id: of an earlier plan, or of an item that is begun anew."""
    plan: str
    this_tool: str
    tools: str
    arguments_unknown: str
    """By who made the call, and what may have been called."""
    effect_unknown: str
    made: str
    returned: str
    item: str
    """An item of a loop, by its number and the loop."""
    some_item: str
    """One of the items of a loop, it is not known which."""


_TABLES: dict[Language, RepeatWords] = {
    "en": RepeatWords(
        again="May {} be called again?",
        step="Step {}",
        plan="An earlier plan",
        this_tool="this tool",
        tools="tools",
        arguments_unknown="{} may already have called {}; it is not known with which arguments.",
        effect_unknown="{} has already made this call, and it is unknown whether it took effect.",
        made="{} has already made this call.",
        returned="It returned {}.",
        item="item {} of {}",
        some_item="an item of {}",
    ),
    "fr": RepeatWords(
        again="{} peut-il être appelé encore une fois ?",
        step="L'étape {}",
        plan="Un plan précédent",
        this_tool="cet outil",
        tools="des outils",
        arguments_unknown="{} a peut-être appelé {} ; on ne sait pas avec quels arguments.",
        effect_unknown="{} a déjà fait cet appel, et on ne sait pas s'il a eu un effet.",
        made="{} a déjà fait cet appel.",
        returned="Résultat : {}.",
        item="élément {} de {}",
        some_item="un élément de {}",
    ),
    "de": RepeatWords(
        again="Darf {} noch einmal aufgerufen werden?",
        step="Der Schritt {}",
        plan="Ein früherer Plan",
        this_tool="dieses Werkzeug",
        tools="Werkzeuge",
        arguments_unknown="{} hat vielleicht {} aufgerufen; mit welchen Argumenten, ist nicht bekannt.",
        effect_unknown="{} hat diesen Aufruf schon gemacht; ob er etwas bewirkt hat, ist nicht bekannt.",
        made="{} hat diesen Aufruf schon gemacht.",
        returned="Ergebnis: {}.",
        item="Element {} von {}",
        some_item="ein Element von {}",
    ),
    "es": RepeatWords(
        again="¿Se puede llamar otra vez a {}?",
        step="El paso {}",
        plan="Un plan anterior",
        this_tool="esta herramienta",
        tools="herramientas",
        arguments_unknown="{} quizá llamó a {}; no se sabe con qué argumentos.",
        effect_unknown="{} ya hizo esta llamada, y no se sabe si tuvo efecto.",
        made="{} ya hizo esta llamada.",
        returned="Resultado: {}.",
        item="elemento {} de {}",
        some_item="un elemento de {}",
    ),
    "it": RepeatWords(
        again="Si può chiamare di nuovo {}?",
        step="Il passo {}",
        plan="Un piano precedente",
        this_tool="questo strumento",
        tools="degli strumenti",
        arguments_unknown="{} forse ha chiamato {}; non si sa con quali argomenti.",
        effect_unknown="{} ha già fatto questa chiamata, e non si sa se ha avuto effetto.",
        made="{} ha già fatto questa chiamata.",
        returned="Risultato: {}.",
        item="elemento {} di {}",
        some_item="un elemento di {}",
    ),
    "pt": RepeatWords(
        again="Pode-se chamar {} outra vez?",
        step="O passo {}",
        plan="Um plano anterior",
        this_tool="esta ferramenta",
        tools="ferramentas",
        arguments_unknown="{} talvez tenha chamado {}; não se sabe com que argumentos.",
        effect_unknown="{} já fez esta chamada, e não se sabe se teve efeito.",
        made="{} já fez esta chamada.",
        returned="Resultado: {}.",
        item="item {} de {}",
        some_item="um item de {}",
    ),
    "nl": RepeatWords(
        again="Mag {} nog een keer worden aangeroepen?",
        step="Stap {}",
        plan="Een eerder plan",
        this_tool="dit gereedschap",
        tools="gereedschap",
        arguments_unknown="{} heeft misschien {} aangeroepen; met welke argumenten is niet bekend.",
        effect_unknown="{} heeft deze aanroep al gedaan; of die een effect had, is niet bekend.",
        made="{} heeft deze aanroep al gedaan.",
        returned="Resultaat: {}.",
        item="onderdeel {} van {}",
        some_item="een onderdeel van {}",
    ),
}


def choose_repeat_words(language: Language) -> RepeatWords:
    """Return the words of a language."""
    return _TABLES[language]
