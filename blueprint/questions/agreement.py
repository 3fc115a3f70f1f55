"""Words by which people agree and refuse, a table per language: questions take them for a yes or a no."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal, NamedTuple

from holdfast.blueprint.expressions.texts import fold

Language = Literal["en", "fr", "de", "es", "it", "pt", "nl"]
DEFAULT_LANGUAGE: Language = "en"

_CLAUSE = re.compile(r"[,.;:!\u2013\u2014\n]| - ")
_INSIDE = re.compile(r"[\s,]+")


class Words(NamedTuple):
    """The words of one language; entries are separated by `|`."""

    accept: str
    """The default option that accepts."""
    refuse: str
    unclear: str
    """The message to a person whose answer is neither; `{}` is the answer."""
    yes: str
    """Single words for yes: whole answers, and the first word of an option that accepts."""
    agreed: str
    """Other whole answers that agree."""
    then: str
    """Words that may follow a yes without taking anything of it back."""
    no: str
    """Single words for no: whole answers, and words of an option that refuses."""
    refused: str
    """Other whole answers that refuse."""
    nots: str
    """Words by which an option denies something."""
    may_run: str
    """The question whether a plan may be run; `{}` is its goal."""
    may_change: str
    """The question whether a plan may be changed; `{}` is the reason."""


TABLES: dict[Language, Words] = {
    "en": Words(
        accept="accept",
        refuse="refuse",
        unclear="“{}” is neither a clear yes nor a clear no. Without a clear yes it counts as no.",
        may_run="May this plan be run? {}",
        may_change="May the plan be changed? {}",
        yes="yes|yep|yeah|yup|ok|okay|sure|accept|accepted|approve|approved|agree|agreed|confirm|confirmed",
        agreed="y|true|go|go ahead|go for it|do it|do so|please do|proceed|carry on|continue|of course|absolutely|"
        "certainly|definitely|exactly|perfect|great|excellent|fine|fine by me|good|very good|sounds good|looks good|"
        "lgtm|all right|alright|all good|no problem|no objection|by all means|with pleasure|gladly|that's fine|"
        "that's ok|that's okay|it's fine|it's ok|it's okay|correct|right|ship it|good to go|i agree|i accept|"
        "i approve|i confirm|i do|granted|\U0001f44d",
        then="please|thanks|thank you|send|send it|send them|do it|do that|do so|go|go ahead|proceed|continue|confirm|"
        "confirmed|approved|run it|i agree|i confirm",
        no="no|nope|nah|cancel|cancelled|canceled|refuse|refused|reject|rejected|decline|declined|deny|denied|stop|"
        "abort",
        refused="n|false|never|not ok|not okay|not now|not yet|no way|no thanks|no thank you|no please|please don't|"
        "please no|don't|do not|don't do it|do not do it|don't send|do not send|don't send it|do not send it|"
        "absolutely not|certainly not|of course not|rather not|better not|i refuse|i decline|\U0001f44e",
        nots="not|never|cannot|can't|don't|doesn't|won't|without|nothing|nobody|none|neither",
    ),
    "fr": Words(
        accept="accepter",
        refuse="refuser",
        unclear="« {} » n'est ni un oui ni un non clair. Sans un oui clair, ce sera non.",
        may_run="Ce plan peut-il être exécuté ? {}",
        may_change="Le plan peut-il être modifié ? {}",
        yes="oui|ouais|ok|okay|d'accord|daccord|accepter|accepte|accepté|approuver|approuve|approuvé|valider|valide|"
        "validé|confirmer|confirme|confirmé",
        agreed="vas-y|vas y|allez-y|allez y|allons-y|allons y|c'est bon|c'est d'accord|c'est parfait|c'est ok|"
        "ça marche|ca marche|ça me va|ca me va|ça va|ca va|bien sûr|bien sur|bien entendu|parfait|entendu|volontiers|"
        "avec plaisir|tout à fait|tout a fait|absolument|certainement|évidemment|evidemment|exactement|excellent|"
        "très bien|tres bien|pas de problème|pas de probleme|pas de souci|sans problème|sans probleme|je confirme|"
        "j'accepte|j'approuve|je valide|je suis d'accord|bon pour moi|c'est bon pour moi|pourquoi pas|faites|"
        "fais-le|faites-le",
        then="merci|s'il te plaît|s'il te plait|s'il vous plaît|s'il vous plait|svp|stp|envoyer|envoie|envoyez|"
        "envoie-les|envoyez-les|envoie-le|envoyez-le|continuer|continue|continuez|faire|fais-le|faites-le|confirmer|"
        "je confirme|j'accepte",
        no="non|annuler|annule|annulé|refuser|refuse|refusé|rejeter|rejette|rejeté|arrêter|arreter|arrête|arrete|"
        "abandonner",
        refused="jamais|surtout pas|pas maintenant|pas encore|pas question|pas d'accord|pas du tout|bien sûr que non|"
        "bien sur que non|non merci|je refuse|hors de question",
        nots="ne|pas|sans|jamais|rien|aucun|aucune|surtout",
    ),
    "de": Words(
        accept="annehmen",
        refuse="ablehnen",
        unclear="„{}“ ist weder ein klares Ja noch ein klares Nein. Ohne klares Ja zählt es als Nein.",
        may_run="Darf dieser Plan ausgeführt werden? {}",
        may_change="Darf der Plan geändert werden? {}",
        yes="ja|jawohl|jo|jep|ok|okay|einverstanden|zustimmen|zugestimmt|annehmen|angenommen|akzeptieren|akzeptiert|"
        "bestätigen|bestätigt|genehmigen|genehmigt|freigeben|freigegeben",
        agreed="gern|gerne|sehr gern|sehr gerne|perfekt|passt|passt so|das passt|in ordnung|geht in ordnung|geht klar|"
        "mach das|mach es|mach mal|mach|machen wir|macht das|machen sie das|nur zu|los|los geht's|los gehts|natürlich|"
        "natuerlich|klar|na klar|alles klar|selbstverständlich|auf jeden fall|unbedingt|genau|sicher|aber sicher|"
        "kein problem|super|prima|gut|sehr gut|bestens|ich stimme zu|ich bin einverstanden|ich bestätige|richtig",
        then="bitte|danke|senden|absenden|versenden|schicken|abschicken|losschicken|verschicken|machen|mach das|"
        "weiter|ausführen|bestätigen|unbedingt",
        no="nein|nö|ablehnen|abgelehnt|abbrechen|abgebrochen|verweigern|verweigert|stopp|stop",
        refused="nee|ne|nicht|niemals|nie|nein danke|nein bitte nicht|bitte nicht|lieber nicht|besser nicht|"
        "nicht jetzt|noch nicht|auf keinen fall|keinesfalls|auf gar keinen fall|natürlich nicht|nicht einverstanden|"
        "nicht senden|ich lehne ab",
        nots="nicht|nie|niemals|kein|keine|keinen|keiner|keinem|nichts|niemand|ohne|keinesfalls",
    ),
    "es": Words(
        accept="aceptar",
        refuse="rechazar",
        unclear="«{}» no es ni un sí ni un no claro. Sin un sí claro, cuenta como no.",
        may_run="¿Se puede ejecutar este plan? {}",
        may_change="¿Se puede cambiar el plan? {}",
        yes="sí|ok|okay|vale|acepto|aceptar|aceptado|apruebo|aprobar|aprobado|confirmo|confirmar|confirmado",
        agreed="si|claro|claro que sí|claro que si|por supuesto|desde luego|de acuerdo|adelante|hazlo|hágalo|hagalo|"
        "dale|perfecto|excelente|muy bien|bien|bueno|está bien|esta bien|me parece bien|con gusto|con mucho gusto|"
        "sin problema|sin problemas|ningún problema|exacto|correcto|estoy de acuerdo",
        then="gracias|por favor|enviar|envía|envíalo|envíalos|envia|envialo|envialos|continuar|adelante|hazlo|"
        "confirmo|confirmar|claro",
        no="no|cancelar|cancela|cancelado|rechazar|rechazo|rechazado|denegar|denegado|detener|abortar",
        refused="nunca|jamás|jamas|no gracias|ahora no|todavía no|todavia no|claro que no|por supuesto que no|"
        "de ninguna manera|mejor no|no estoy de acuerdo|no enviar|no lo envíes|no lo envies",
        nots="no|sin|nunca|jamás|nada|ningún|ninguno|ninguna|tampoco",
    ),
    "it": Words(
        accept="accetta",
        refuse="rifiuta",
        unclear="“{}” non è né un sì né un no chiaro. Senza un sì chiaro vale come no.",
        may_run="Si può eseguire questo piano? {}",
        may_change="Si può cambiare il piano? {}",
        yes="sì|ok|okay|accetto|accetta|accettare|accettato|approvo|approva|approvare|approvato|confermo|conferma|"
        "confermare|confermato",
        agreed="si|va bene|d'accordo|certo|certo che sì|certamente|sicuro|assolutamente sì|procedi|proceda|procedete|"
        "vai|vai pure|avanti|perfetto|ottimo|eccellente|benissimo|bene|molto bene|fallo|volentieri|con piacere|"
        "senz'altro|nessun problema|esatto|giusto|sono d'accordo",
        then="grazie|per favore|per piacere|invia|inviare|invialo|inviali|manda|mandalo|procedi|fallo|certo|confermo",
        no="no|annulla|annullare|annullato|rifiuta|rifiuto|rifiutare|rifiutato|respingi|respinto|negare|negato|ferma",
        refused="mai|no grazie|non ora|non adesso|non ancora|certo che no|assolutamente no|meglio di no|"
        "non sono d'accordo|non inviare|per niente",
        nots="non|senza|niente|nulla|nessun|nessuno|nessuna|neanche",
    ),
    "pt": Words(
        accept="aceitar",
        refuse="recusar",
        unclear="“{}” não é nem um sim nem um não claro. Sem um sim claro, conta como não.",
        may_run="Este plano pode ser executado? {}",
        may_change="O plano pode ser alterado? {}",
        yes="sim|ok|okay|aceito|aceitar|aceite|aceitado|aprovo|aprovar|aprovado|confirmo|confirmar|confirmado|concordo",
        agreed="claro|claro que sim|com certeza|certamente|de acordo|está bem|esta bem|está bom|esta bom|tá bom|"
        "ta bom|tudo bem|pode ser|perfeito|excelente|ótimo|otimo|muito bem|bem|vá em frente|va em frente|"
        "vai em frente|pode ir|pode enviar|faça|faça isso|beleza|com prazer|sem problema|sem problemas|exato|correto|"
        "certo|estou de acordo",
        then="obrigado|obrigada|por favor|enviar|envia|envie|pode enviar|continuar|faça|claro|confirmo|confirmar",
        no="não|nao|cancelar|cancela|cancelado|recusar|recuso|recusado|rejeitar|rejeito|rejeitado|negar|negado|abortar",
        refused="nunca|jamais|não obrigado|não obrigada|nao obrigado|nao obrigada|agora não|agora nao|ainda não|"
        "ainda nao|claro que não|claro que nao|de jeito nenhum|melhor não|melhor nao|não concordo|não enviar",
        nots="não|nao|sem|nunca|jamais|nada|nenhum|nenhuma|ninguém|nem",
    ),
    "nl": Words(
        accept="akkoord",
        refuse="weigeren",
        unclear="“{}” is geen duidelijk ja en geen duidelijk nee. Zonder duidelijk ja telt het als nee.",
        may_run="Mag dit plan worden uitgevoerd? {}",
        may_change="Mag het plan worden gewijzigd? {}",
        yes="ja|jawel|ok|oke|oké|okay|akkoord|accepteren|geaccepteerd|aanvaarden|aanvaard|goedkeuren|goedgekeurd|"
        "bevestigen|bevestigd|bevestig",
        agreed="prima|perfect|graag|heel graag|ga je gang|ga uw gang|ga maar|ga door|ga verder|doe maar|doe het|"
        "natuurlijk|zeker|jazeker|uiteraard|in orde|is goed|dat is goed|goed|heel goed|uitstekend|geen probleem|"
        "mee eens|klopt|precies|met plezier|ik ga akkoord",
        then="graag|alstublieft|alsjeblieft|bedankt|dank je|dank u|verzenden|verstuur|versturen|sturen|stuur maar|"
        "doe maar|doorgaan|hoor|bevestigen",
        no="nee|neen|annuleren|geannuleerd|weigeren|geweigerd|afwijzen|afgewezen|stop|stoppen|afbreken",
        refused="nooit|nee bedankt|nee dank je|nee dank u|liever niet|beter niet|niet nu|nog niet|niet akkoord|"
        "niet doen|doe maar niet|natuurlijk niet|zeker niet|in geen geval|niet verzenden|niet versturen",
        nots="niet|nooit|geen|niets|niemand|zonder",
    ),
}


_COMMON: dict[Language, str] = {
    "en": "the and of to for with is are an on by from that this it if each every them who which your",
    "fr": "le les des du et une pour avec est sont dans sur par aux qui chaque ce cette leur vous un au puis tous",
    "de": "der die das und ein eine für mit ist sind auf von den dem des im jede jeden wenn nicht an zum",
    "es": "el los las y una para con es son del por que cada si lo al su",
    "it": "il lo gli le e una per con è sono di della che ogni dei alla nel ai",
    "pt": "os as e uma para com é são em do da dos das que cada se ao na no aos",
    "nl": "het een en voor met is zijn op van te dat die elke elk als niet aan naar",
}
_WORDS = {language: frozenset(words.split()) for language, words in _COMMON.items()}
_LETTERS = re.compile(r"[^\W\d_]+")
_ENOUGH = 2
"""The fewest common words of a language by which it is told; there must be twice as many as of any other."""


@lru_cache(maxsize=64)
def find_language(text: str) -> Language | None:
    """Return the language of a text, by its commonest words; None where they do not tell.

    >>> find_language("Préparer et envoyer les invitations pour la fête"), find_language("Invite Ana")
    ('fr', None)
    """
    words = _LETTERS.findall(fold(text))
    counts = sorted(((sum(word in common for word in words), language) for language, common in _WORDS.items()))
    (second, _), (first, language) = counts[-2:]
    return language if first >= max(_ENOUGH, 2 * second) else None


def plainly(text: str) -> str:
    """Return a text as an answer is compared: composed, without case, outer punctuation and inner commas.

    A question mark stays: who asks back does not agree.

    >>> plainly(" «Oui,  envoyer !» "), plainly("OK?")
    ('oui envoyer', 'ok?')
    """
    words = fold(text).replace("\u2019", "'")
    begin, end = 0, len(words)
    while begin < end and _is_outer(words[begin]):
        begin += 1
    while end > begin and _is_outer(words[end - 1]):
        end -= 1
    return _INSIDE.sub(" ", words[begin:end])


def _is_outer(sign: str) -> bool:
    return sign.isspace() or (sign != "?" and unicodedata.category(sign).startswith("P"))


def _entries(*lists: str) -> frozenset[str]:
    return frozenset(plainly(entry) for entries in lists for entry in entries.split("|"))


def _consents(words: Words) -> frozenset[str]:
    """Every whole answer that agrees: a yes, with or without what may follow it."""
    yes, other = _entries(words.yes), _entries(words.agreed)
    following = other | _entries(words.then) | yes
    return yes | other | {f"{word} {rest}" for word in yes for rest in following}


_CONSENTS = frozenset[str]().union(*map(_consents, TABLES.values()))
_REFUSALS = frozenset[str]().union(*(_entries(words.no, words.refused) for words in TABLES.values()))
YES_WORDS = frozenset[str]().union(*(_entries(words.yes) for words in TABLES.values()))
NO_WORDS = frozenset[str]().union(*(_entries(words.no) for words in TABLES.values()))
NEGATIONS = frozenset[str]().union(*(_entries(words.nots) for words in TABLES.values()))


def agrees(text: str) -> bool:
    """Return whether a whole answer is a yes, in any language; nothing is read out of a part of it.

    >>> [agrees(text) for text in ("Vas-y !", "ja, gerne", "Oui, envoyer", "yes but", "not ok", "oui mais pas lui")]
    [True, True, True, False, False, False]
    """
    # By the words in it "oui mais pas lui" would be a yes, and somebody would act on it.
    return plainly(text) in _CONSENTS


def refuses(text: str) -> bool:
    """Return whether an answer is a no, or begins with one that stands by itself: a no needs no second question.

    >>> [refuses(text) for text in ("Non, surtout pas", "not ok", "no problem", "ok, stop", "Nein danke!")]
    [True, True, False, False, True]
    """
    return plainly(text) in _REFUSALS or plainly(_CLAUSE.split(text.strip(), maxsplit=1)[0]) in _REFUSALS


def choose_words(language: Language | None) -> Words:
    """Return the words of a plan's language; without one, English."""
    return TABLES[language or DEFAULT_LANGUAGE]
