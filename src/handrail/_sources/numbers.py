"""Numbers: whether a person has named a thing by its number, as in "file 13"."""

# ruff: noqa: RUF001  letters of other languages
from __future__ import annotations

import re

_JOINED = r"and|or|und|oder|et|ou|y|o|e|i|&|\+"
_LISTED = rf"(?:#? ?\d{{1,9}}(?:, (?:(?:{_JOINED}) )?| (?:{_JOINED}) )){{0,20}}"
"""Other numbers before one, as in "files 12, 13 and 14"."""
_MIN_WORD_CHARS, _LETTER = 3, r"[^\W\u3040-\u9fff]"
"""A letter that is not from a script without spaces."""
_ENDINGS = "s|en|n|e|es|y|i|ni|si"
_MARKS = r"ids?|no\.?|n°|nº|nr\.?|núm\.?|№|number|nummer|numéro"
"""Words and marks before a number."""
_NUMBERED = re.compile(r"[a-z]{0,6}[\-_#./ ]?0*([1-9]\d{0,8})")
_THINGS = {
    "booking": "buchung|réservation|reserva|prenotazione|rezerwacj|rezervasyon|бронь|予約|预订",
    "event": "termin|événement|evento|wydarzeni|etkinli[kğ]|событи|予定|イベント",
    "file": "datei|fichier|archivo|fichero|ficheiro|arquivo|plik|dosya|файл|ファイル|文件",
    "invoice": "rechnung|facture|factura|fatura|fattura|faktur|счёт|счет|請求書|发票",
    "mail": "nachricht|message|mensaje|mensagem|messaggi|wiadomoś|письм|メール|邮件",
    "message": "nachricht|mensaje|mensagem|messaggi|wiadomoś|mesaj|сообщени|メッセージ|消息",
    "order": "bestellung|commande|pedido|encomenda|ordine|zamówieni|sipariş|заказ|注文|订单",
    "page": "seite|página|pagina|stron|sayfa|страниц|ページ",
    "payment": "zahlung|überweisung|paiement|pago|pagamento|płatnoś|ödeme|платёж|платеж|支払い",
    "room": "zimmer|raum|chambre|salle|habitación|sala|quarto|camera|pok[óo]j|oda|комнат|部屋",
    "ticket": "vorgang|billete|boleto|biglietto|zgłoszeni|bilet|заявк|チケット|工单",
    "user": "nutzer|benutzer|utilisateur|usuario|utilizador|utente|użytkownik|kullanıcı|ユーザー",
}
"""Words for things in several languages, by the scheme for them."""


def find_number(value: str) -> str:
    """Return the number in an id, such as 4471 in ``ORD-4471``, or an empty text."""
    number = _NUMBERED.fullmatch(value)
    return number[1] if number else ""


def is_numbered(value: str, text: str, schemes: frozenset[str]) -> bool:
    """Return whether a short number follows a word for the thing, as in "file 13"."""
    if value not in text:
        return False
    own = [re.escape(word) for word in sorted(schemes) if len(word) >= _MIN_WORD_CHARS]
    words = "|".join([*own, *(_THINGS[word] for word in schemes & _THINGS.keys())])
    if not words:
        return False
    between = rf"(?:{_ENDINGS})?[ :]{{0,3}}(?:{_MARKS})?[ :]{{0,3}}"
    alone = rf"(?![\w.,:/\-]{{0,40}}\d|{_LETTER})"
    numbered = rf"(?<!{_LETTER})(?:{words}){between}{_LISTED}#? ?{value}{alone}"
    return re.search(numbered, text) is not None
