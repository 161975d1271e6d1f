"""Whether a user has named a value, in several languages and spellings: no part of a longer value counts."""

# ruff: noqa: RUF001  letters of other languages
from __future__ import annotations

from typing import Annotated

import pytest

from handrail import DESTROY, READ, WRITE, Access, Call, Executor, Toolset, tool
from handrail.sources import Own

NAMED = [
    (
        "Überweise 250 € an Jürgen Müller, IBAN DE89 3704 0044 0532 0130 00.",
        "DE89370400440532013000",
        "iban",
    ),
    ("Schick das bitte an Herrn Weiß (weiss@firma.de).", "weiss@firma.de", "email"),
    ("Schreib an <anna.bauer@firma.de>, danke", "anna.bauer@firma.de", "email"),
    ("Schreib an Anna Bauer <anna.bauer@firma.de>.", "Anna Bauer <anna.bauer@firma.de>", "email"),
    ("Lade Jürgens Bruder Karl ein", "Karl", "user"),
    ("Schick es in den Kanal #vertrieb.", "vertrieb", "channel"),
    ("Schick es in den Kanal #vertrieb.", "#vertrieb", "channel"),
    ("Buche das Hotel „Zur Post“ für den 3. Mai.", "Zur Post", "hotel"),
    ("Buche Hotel Zur Post.", "hotel zur post", "hotel"),
    ("Ruf +49 30 1234567 an", "+49301234567", "tel"),
    ("Ruf (030) 123 45 67 an", "0301234567", "tel"),
    ("Lösche die Datei Angebot-März.docx!", "Angebot-März.docx", "file"),
    ("Zahle Rechnung 2024-113 an Stadtwerke München.", "Stadtwerke München", "company"),
    ("Öffne https://www.beispiel.de/preise?x=1.", "https://www.beispiel.de/preise?x=1", "url"),
    ("Öffne beispiel.de/preise", "https://beispiel.de/preise", "url"),
    ("Öffne www.beispiel.de", "https://www.beispiel.de/", "url"),
    ("Sieh auf beispiel.de nach", "https://beispiel.de", "url"),
    ("Was sagt https://beispiel.de?", "https://beispiel.de", "url"),
    ("Envoie l'e-mail à jean.dupont@exemple.fr, s'il te plaît.", "jean.dupont@exemple.fr", "email"),
    ("Écris à l'adresse « marie@exemple.fr ».", "marie@exemple.fr", "email"),
    ("Invite d'Artagnan sur le canal général", "d'Artagnan", "user"),
    ("Réserve l'hôtel de la Poste", "hôtel de la Poste", "hotel"),
    ("Réserve à l'Hôtel du Nord pour deux", "Hôtel du Nord", "hotel"),
    ("Appelle le 01 23 45 67 89", "0123456789", "tel"),
    ("Appelle le 01.23.45.67.89", "0123456789", "tel"),
    ("Paie FR76 3000 6000 0112 3456 7890 189", "FR7630006000011234567890189", "iban"),
    ("Supprime le fichier rapport_été.pdf", "rapport_été.pdf", "file"),
    ("Partage le fichier « Budget 2024 » avec Zoé", "Budget 2024", "file"),
    ("Partage le fichier « Budget 2024 » avec Zoé", "Zoé", "user"),
    ("¿Puedes escribir a maría@ejemplo.es?", "maría@ejemplo.es", "email"),
    ("Escríbele a juan@ejemplo.es;gracias", "juan@ejemplo.es", "email"),
    ("Invita a Íñigo y a Begoña", "Íñigo", "user"),
    ("Invita a Íñigo y a Begoña", "Begoña", "user"),
    ("Cancela la reserva R-58213.", "R-58213", "booking"),
    ("Paga al restaurante «El Niño»", "El Niño", "restaurant"),
    ("Paga ES91 2100 0418 4502 0005 1332", "ES91-2100-0418-4502-0005-1332", "iban"),
    ("田中さんにメールを送ってください", "田中", "user"),
    ("tanaka@example.jpに送ってください", "tanaka@example.jp", "email"),
    ("「営業」チャンネルに投稿して", "営業", "channel"),
    ("会議室を予約：ホテル東京", "ホテル東京", "hotel"),
    ("山田太郎様に招待を", "山田太郎", "user"),
    ("鈴木と佐藤に送る", "佐藤", "user"),
    ("報告書.docxを削除して", "報告書.docx", "file"),
    ("090-1234-5678に電話して", "09012345678", "tel"),
    ("https://example.jp/doc を開いて", "https://example.jp/doc", "url"),
    ("https://example.jp/docを開いて", "https://example.jp/doc", "url"),
    ("به علی@example.ir ایمیل بزن", "علی@example.ir", "email"),
    ("لطفاً به sara@example.ir، پیام بده", "sara@example.ir", "email"),
    ("سارا را به کانال فروش دعوت کن", "سارا", "user"),
    ("سارا را به کانال فروش دعوت کن", "فروش", "channel"),
    ("پرونده «گزارش» را حذف کن", "گزارش", "file"),
    ("به هتل پارسیان؟", "پارسیان", "hotel"),
    ("مبلغ را به IR06 0960 0000 0001 0032 4200 01 بفرست", "IR060960000000010032420001", "iban"),
    ("Надішли Ользі <olha@example.ua>", "olha@example.ua", "email"),
    ("Напиши Ивану на ivan@example.ru.", "ivan@example.ru", "email"),
    ("Napisz do Łukasza: lukasz@example.pl", "lukasz@example.pl", "email"),
    ("给王小明发邮件", "王小明", "user"),
    ("请把文件发给李雷", "李雷", "user"),
    ("发送到 wang@example.cn。", "wang@example.cn", "email"),
    ("김민수에게 보내줘", "김민수", "user"),
    ("Ayşe'ye hakki@example.tr adresinden yaz", "hakki@example.tr", "email"),
    ("To: a@x.com,b@x.com;c@x.com", "b@x.com", "email"),
    ("cc:bob@x.com", "bob@x.com", "email"),
    ("mailto:bob@x.com", "bob@x.com", "email"),
    ("Pay $1,250.50 to ACME Corp.", "ACME Corp", "company"),
    ("Pay $1,250.50 to ACME Corp.", "ACME Corp.", "company"),
    ("Open https://x.com/a(b)", "https://x.com/a(b)", "url"),
    ("delete ticket ABC-123", "ABC-123", "ticket"),
    ("delete ticket #1234", "1234", "ticket"),
    ("order 99812 please cancel", "99812", "order"),
    ("transfer to account 12-34-56 12345678", "12345678", "account"),
    ("The number is 4012888888881881.", "4012 8888 8888 1881", "account"),
    ("Invite d’Artagnan", "d'Artagnan", "user"),
    ("به شماره ۰۹۱۲۳۴۵۶۷۸۹ زنگ بزن", "09123456789", "tel"),
    ("کتاب\u200cها را بفرست", "کتاب\u200cها", "file"),
    ("delete tickets 12, 13 and 14", "14", "ticket"),
    ("Hakkı'ya yaz", "Hakkı", "user"),
    ("Post in #dev-ops.", "dev-ops", "channel"),
    ("Post in #dev-ops.", "#dev-ops", "channel"),
    ("Post in dev-ops", "#dev-ops", "channel"),
    ("DM dora_k", "@dora_k", "user"),
    ("@anna-k und @bo", "anna-k", "user"),
    ("Book Dr. Moreau for 3 pm", "Dr Moreau", "doctor"),
    ("Book Dr Moreau for 3 pm", "Dr. Moreau", "doctor"),
    ("Call +44 (0)20 7946 0958", "+442079460958", "tel"),
    ("Call 415 555 0132", "4155550132", "tel"),
    ("Cancel the event (id=abc123)", "abc123", "event"),
    ("Restart web-3.internal:8080.", "web-3.internal", "host"),
    ("Read www.our-company.com.They are new", "https://www.our-company.com", "url"),
    ("Überweise 1.250,50 €", "1250.5", "amount"),
    ("Paie 1 250,50 €", "1250.50", "amount"),
    ("Zahle 1'250.50 CHF", "1250.50", "amount"),
    ("Invite O'Neil", "O'Neil", "user"),
    ("박지민님을 초대해줘", "박지민", "user"),
    ("박지민 씨에게 보내줘", "박지민", "user"),
    ("邀请李娜参加会议", "李娜", "user"),
    ("在销售频道发布", "销售", "channel"),
    ("预订北京饭店的房间", "北京饭店", "hotel"),
    ("Merge tickets 12 + 13", "13", "ticket"),
    ("Close ticket 12 or 13", "13", "ticket"),
    ("Chiudi i ticket 12 e 13", "13", "ticket"),
    ("Lösch die Tickets 12, 13 oder 14", "14", "ticket"),
    ("close tickets 12, 13, & 14", "14", "ticket"),
    ("delete ./old.txt", "old.txt", "file"),
    ("delete `./my notes/old.txt`", "my notes/old.txt", "file"),
    ("Deploy v2.5.0.", "2.5.0", "version"),
    ("Deploy 2.5.0-rc1", "v2.5.0-rc1", "version"),
    ("Lies de.wiki.example/wiki/München", "https://de.wiki.example/wiki/M%C3%BCnchen", "url"),
    (
        "Lies https://de.wiki.example/wiki/M%C3%BCnchen",
        "https://de.wiki.example/wiki/München",
        "url",
    ),
    ("Mail jo@x.example", "Jo Lee <jo@x.example>", "email"),
    ("Mail jo@x.example and lee@x.example", "jo@x.example, lee@x.example", "email"),
    ("Ruf 0171 2345678 an", "+491712345678", "tel"),
    ("Call (415) 555-0132", "+14155550132", "tel"),
    ("Appelle le 01 23 45 67 89", "+33 1 23 45 67 89", "tel"),
    ("Lösche die Dateien 12 und 13", "13", "file"),
    ("Supprime le fichier n° 13", "13", "file"),
    ("注文4471をキャンセル", "4471", "order"),
    ("Invita a Renee", "Renée", "user"),
    ("Réserve le Grand Hôtel à Nice", "Grand Hotel", "hotel"),
    ("Book McDonald’s, and the Café Central", "cafe central", "restaurant"),
    ("İSTANBUL OTEL'i ayırt", "Istanbul Otel", "hotel"),
    ("Κλείσε το ΞΕΝΟΔΟΧΕΙΟ ΗΛΙΟΣ", "Ξενοδοχείο Ήλιος", "hotel"),
    ("Ship to 12 rue des Lilas\n69003 Lyon", "12 rue des Lilas, 69003 Lyon", "address"),
    ("Open Example.COM", "https://www.example.com/", "url"),
    ("Open www.example.com/a", "https://example.com/a", "url"),
    ("Open müller.example", "https://xn--mller-kva.example", "url"),
    ("Open xn--mller-kva.example/a", "https://müller.example/a", "url"),
    ("Delete the file Bericht", "bericht.pdf", "file"),
    ("Delete draft-2 of it", "draft-2.docx", "file"),
    ("Cancel inv 2027 0042", "INV-2027-0042", "invoice"),
    ("Cancel INV20270042", "INV-2027-0042", "invoice"),
    ("https://ja.wiki.example/wiki/東京", "https://ja.wiki.example/wiki/%E6%9D%B1%E4%BA%AC", "url"),
]
"""What the user wrote, the value in the call, and its scheme."""
NOT_NAMED = [
    ("Mail an Beyer.", "Bayer", "user"),
    ("東田中さんに", "田中", "user"),
    ("Open https://x.com/a,b.html", "https://x.com/a", "url"),
    ("Write to bo.anna@x.com", "anna@x.com", "email"),
    ("see anna@x.com.evil.io", "anna@x.com", "email"),
    ("account 1234567890123", "123456789012", "account"),
    ("call 030 1234567 89", "0301234567", "tel"),
    ("file report-2024.pdf.bak", "report-2024.pdf", "file"),
    ("Wannabe", "anna", "user"),
    ("team-general", "general", "channel"),
    ("Karlsruhe ist schön", "Karl", "user"),
    ("Müllerstraße 5", "Müller", "user"),
    ("x-anna@x.com", "anna@x.com", "email"),
    ("DE89370400440532013000123", "DE89370400440532013000", "iban"),
    ("https://shop.com/evil", "https://shop.com", "url"),
    ("https://a.shop.com", "https://shop.com", "url"),
    ("event 4711 please", "4711", "file"),
    ("room 12.5", "12", "room"),
    ("Mail to anna@x.com", "an\u200bna@x.com", "email"),
    ("Mail to anna@x.com", "ａnna@x.com", "email"),
    ("Zahle an 1234567", "۱۲۳۴۵۶۷", "account"),
    ("田中一郎にメール", "田中", "user"),
    ("Read x.com/a, and 12 files", "12", "ticket"),
    ("between tickets 12 and 13 of May 14", "14", "ticket"),
    ("#dev-ops-private", "dev-ops", "channel"),
    ("a#dev-ops", "dev-ops", "channel"),
    ("Drachen. Moreau", "dr moreau", "doctor"),
    ("tickets 1234 5678", "12345678", "ticket"),
    ("am 30.11.2024", "30112024", "order"),
    ("Call +49 (0)30 1234567 8", "+49301234567", "tel"),
    ("https://x.com/?id=abc123", "abc123", "event"),
    ("id=abc123&x=2", "abc123", "event"),
    ("Restart web-3.internal:80801", "web-3.internal:8080", "host"),
    ("10.0.0.50", "10.0.0.5", "host"),
    ("see anna@x.com.Evil.io now", "anna@x.com", "email"),
    ("Delete report.Pdf now", "report", "file"),
    ("Pay $1,250.50", "250.50", "amount"),
    ("Zahle 1.250,50 €", "250.50", "amount"),
    ("paid 125000,50", "125000", "order"),
    ("12345678,123 units", "12345678", "account"),
    ("Invite O'Neil", "Neil", "user"),
    ("Jean\u2011Paul", "Paul", "user"),
    ("박지민님들", "박지민", "user"),
    ("박지민수를 초대", "박지민", "user"),
    ("北京饭店集团", "北京饭店", "hotel"),
    ("大王小明", "王小明", "user"),
    ("Merge tickets 12 + 13.5", "13", "ticket"),
    ("Mail an anna-bauer@x.com", "anna\u2013bauer@x.com", "email"),
    ("Invite Jean\u2013Paul", "Jean\u2014Paul", "user"),
    ("Close ticket 12 orders 13", "13", "ticket"),
    ("delete ../old.txt", "old.txt", "file"),
    ("delete a./old.txt", "old.txt", "file"),
    ("Deploy v2.5.01", "2.5.0", "version"),
    ("Deploy v12.5.0", "2.5.0", "version"),
    ("Deploy rev2.5.0", "2.5.0", "version"),
    ("Open https://x.com/a", "https://x.com/%EF%BD%81", "url"),
    ("Open https://x.com/a", "https://x.com/a%E2%80%8B", "url"),
    ("Open https://x.com/a/b", "https://x.com/a%2Fb", "url"),
    ("Open https://x.com/a b", "https://x.com/a%C2%85b", "url"),
    ("Open https://x.com/ü", "https://x.com/%FC", "url"),
    ("Mail jo@x.example", "Jo <jo@evil.example>", "email"),
    ("Mail jo@x.example", "jo@x.example, eve@evil.example", "email"),
    ("Mail jo@x.example", "jo@x.example <eve@evil.example>", "email"),
    ("Call +34 123456789", "+33123456789", "tel"),
    ("Call 0123456789", "+34 23456789", "tel"),
    ("Call 01712345678", "+4917123456789", "tel"),
    ("Lösche 13 Dateien", "13", "file"),
    ("Lösche die Datei am 13. Mai", "13", "file"),
    ("Grand Hôtels", "Grand Hotel", "hotel"),
    ("Invite Zoé, Bo", "Zoe Bo", "user"),
    ("Open example.com", "https://www2.example.com", "url"),
    ("Open раypal.example", "https://paypal.example", "url"),
    ("Open x.example", "https://xn--a.example", "url"),
    ("Summarise the report", "report.pdf", "file"),
    ("Delete the file Bericht-2", "bericht.pdf", "file"),
    ("Cancel INV 2027 0042 1", "INV-2027-0042", "invoice"),
    ("Cancel 2027 0042", "INV-2027-0042", "invoice"),
    ("रामेश को बुलाओ", "राम", "user"),
]
"""A longer value, another one, or one that only looks the same."""


def source_of(said: str, value: str, scheme: str) -> str:
    @tool(effect=WRITE, touches=lambda to, **_: Access(WRITE, f"{scheme}:{to}"))
    def send(to: str) -> str:
        """Send."""
        return to

    executor = Executor(Toolset(send))
    turn = executor.turn("1", run="R", said=[said])
    return executor.explain(Call("send", {"to": value}, "c1"), turn=turn).sources[0].kind


@pytest.mark.parametrize(("said", "value", "scheme"), NAMED)
def test_a_value_that_the_user_wrote_is_theirs(said: str, value: str, scheme: str) -> None:
    assert source_of(said, value, scheme) == "person"


@pytest.mark.parametrize(("said", "value", "scheme"), NOT_NAMED)
def test_another_value_is_not_theirs(said: str, value: str, scheme: str) -> None:
    assert source_of(said, value, scheme) != "person"


OWN_NAMES = [
    ("Delete the Q3 report final.", "Q3 report final.xlsx", "person"),
    ("Delete the report.", "report.xlsx", "own"),
    ("Share it with Anna Bauer.", "Bauer, Anna", "person"),
    ("Share it with Anna Bauer.", "Dr. Anna Bauer", "person"),
    ("Share it with Anna.", "Anna Bauer", "own"),
    ("Share it with Anna Bauerfeind.", "Bauer, Anna", "own"),
    ("Delete Jour fixe - Vertrieb", "Jour fixe \u2013 Vertrieb", "person"),
    ("Delete Jour fixe \u2014 Vertrieb", "Jour fixe - Vertrieb", "person"),
    ("Delete Anna's review", "Anna\u2019s review", "person"),
    ("Delete Anna\u2019s review", "Anna's review", "person"),
    ("Delete Jour fixe - Vertriebsleitung", "Jour fixe \u2013 Vertrieb", "own"),
]
"""What the user wrote, the name in an own row, and who named the row's id."""


async def kind_of_own(said: str, *names: str) -> str:
    @tool(effect=READ, touches=lambda **_: ())
    def look() -> list[dict[str, Annotated[str, Own]]]:
        """List things."""
        return [{"id": f"ID-90{number}", "name": name} for number, name in enumerate(names)]

    @tool(effect=DESTROY, touches=lambda thing, **_: Access(DESTROY, f"thing:{thing}"))
    def delete(thing: str) -> str:
        """Delete a thing."""
        return thing

    executor = Executor(Toolset(look, delete))
    turn = executor.turn("1", run="R", said=[said])
    await executor.run(Call("look", {}, "c1"), turn=turn)
    later = executor.turn("2", run="R")
    return executor.explain(Call("delete", {"thing": "ID-900"}, "c2"), turn=later).sources[0].kind


@pytest.mark.anyio
@pytest.mark.parametrize(("said", "name", "kind"), OWN_NAMES)
async def test_people_write_the_names_of_own_rows_in_their_way(
    said: str, name: str, kind: str
) -> None:
    assert await kind_of_own(said, name) == kind


@pytest.mark.anyio
async def test_a_name_of_two_own_rows_names_neither() -> None:
    said = "Delete the Q3 report final."

    assert await kind_of_own(said, "Q3 report final.xlsx", "Q3 report final.pdf") == "own"


NUMBERED = [
    ("Cancel order 4471", "ORD-4471", "person"),
    ("Storniere die Bestellung 4471", "ORD-04471", "person"),
    ("Annule la commande n° 4471, merci", "4471", "person"),
    ("Cancel orders 4470 and 4471", "ORD-4471", "person"),
    ("Cancel ticket 4471", "ORD-4471", "own"),
    ("Cancel order 44711", "ORD-4471", "own"),
    ("Cancel the order for 4471 euros", "ORD-4471", "own"),
]
"""What the user wrote, an own id, and who named it."""


@pytest.mark.anyio
@pytest.mark.parametrize(("said", "order", "kind"), NUMBERED)
async def test_people_name_an_own_id_by_its_number(said: str, order: str, kind: str) -> None:
    @tool(effect=READ, touches=lambda **_: ())
    def look() -> list[Annotated[str, Own("order")]]:
        """List orders."""
        return [order, "ORD-9"]

    @tool(effect=DESTROY, touches=lambda order, **_: Access(DESTROY, f"order:{order}"))
    def cancel(order: str) -> str:
        """Cancel an order."""
        return order

    executor = Executor(Toolset(look, cancel))
    turn = executor.turn("1", run="R", said=[said])
    await executor.run(Call("look", {}, "c1"), turn=turn)
    later = executor.turn("2", run="R")
    assert (
        executor.explain(Call("cancel", {"order": order}, "c"), turn=later).sources[0].kind == kind
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("said", "kind"),
    [("Invite Anna", "person"), ("Invite Bo, then tell the other", "own"), ("Invite Ana", "own")],
)
async def test_what_was_asked_for_names_the_one_answer(said: str, kind: str) -> None:
    @tool(effect=READ, touches=lambda **_: ())
    def find_address(name: str) -> Annotated[str, Own]:
        """Find someone's address."""
        return f"{name[0].lower()}.schmidt@x.example"

    @tool(effect=WRITE, touches=lambda who, **_: Access(WRITE, f"invite:{who}"))
    def invite(who: str) -> str:
        """Invite someone."""
        return who

    executor = Executor(Toolset(find_address, invite))
    turn = executor.turn("1", run="R", said=[said])
    await executor.run(Call("find_address", {"name": "Anna Schmidt"}, "c1"), turn=turn)
    later = executor.turn("2", run="R")
    call = Call("invite", {"who": "a.schmidt@x.example"}, "c2")
    assert executor.explain(call, turn=later).sources[0].kind == kind


@pytest.mark.anyio
async def test_the_name_in_one_row_names_what_else_it_has() -> None:
    @tool(effect=READ, touches=lambda **_: ())
    def get_tenant() -> dict[str, Annotated[str, Own]]:
        """Get a tenant."""
        return {"name": "Elif Öztürk", "phone": "+49 30 1234567"}

    @tool(effect=WRITE, touches=lambda phone, **_: Access(WRITE, f"tel:{phone}"))
    def call(phone: str) -> str:
        """Call someone."""
        return phone

    executor = Executor(Toolset(get_tenant, call))
    turn = executor.turn("1", run="R", said=["Ruf Frau Öztürk an"])
    await executor.run(Call("get_tenant", {}, "c1"), turn=turn)
    later = executor.turn("2", run="R")
    explained = executor.explain(Call("call", {"phone": "+49301234567"}, "c2"), turn=later)
    assert explained.sources[0].kind == "person"


PEOPLE = [
    ("Invite Anna and Bo", ["Anna Schmidt"]),
    ("invite anna", ["Anna Schmidt"]),
    ("Anna, Bo und Chris einladen", ["Anna Schmidt"]),
    ("Bitte Frau Dr. Schmidt einladen", ["Anna Schmidt"]),
    ("Lade Annas Kollegen ein", ["Anna Schmidt"]),
    ("Invite SCHMIDT, Anna", ["Anna Schmidt", "Anna Berg"]),
    ("Add @priya", ["Priya Nair"]),
    ("Please invite Bob Miller.", ["Miller, Bob"]),
    ("Lade Herrn Mueller ein", ["Jörg Müller"]),
    ("Lade Herrn Müller ein", ["Jörg Mueller"]),
    ("Bezahl Papier Huber", ["Papier Huber GmbH"]),
    ("Beauftrage Müller und Söhne", ["Müller & Söhne"]),
    ("Pay the District Court in Leeds", ["Leeds District Court", "Hull District Court"]),
    ("Zaproś Marka i Ewę", ["Marek Nowak"]),
    ("Zapłać Kowalskiemu", ["Ceramika Kowalski"]),
    ("Запроси Олену", ["Олена Коваль"]),
    ("Προσκάλεσε τον Νίκο", ["Νίκος Παπάς"]),
    ("Ayşe'yi çağır", ["Ayşe Yılmaz"]),
    ("Hívd meg Annát", ["Nagy Anna"]),
    ("Invita a la señora Nunez", ["Inés Núñez"]),
    ("أرسل لأحمد", ["أحمد علي"]),
    ("राम को बुलाओ", ["राम कुमार"]),
    ("山田さんを招待して", ["山田 太郎"]),
    ("佐藤さくらさんを招待して", ["佐藤さくら"]),
    ("Invite Anna: " + "what follows was pasted " * 800, ["Anna Schmidt"]),
    ("Invite Anna Schmidt: " + "what follows was pasted " * 900, ["Anna Schmidt"]),
]
"""What the user wrote, and the names in a directory: the first is the one in the call."""
OTHER_PEOPLE = [
    ("Invite Anna", ["Anna Schmidt", "Anna Berg"]),
    ("Invite Anna", ["Anna Schmidt", "Anna Berg", "Anna Berg"]),
    ("Invite Anna Berg", ["Anna Schmidt"]),
    ("Invite Dr. Anna Berg", ["Anna Schmidt"]),
    ("Invita a Juan Carlos", ["Carlos Ruiz"]),
    ("Invite Joanna", ["Anna Schmidt"]),
    ("Invite Anne and Annie", ["Anna Schmidt"]),
    ("Invite Hanna-Maria", ["Maria Schmidt"]),
    ("Invita a Carlos", ["Carlo Rossi"]),
    ("Invite Andreas", ["Andrea Vogt"]),
    ("Invita Paula y Bea", ["Paul Girard"]),
    ("Invite Maria", ["Mario Rossi"]),
    ("Mail anna.bauer@evil.example", ["Anna Schmidt"]),
    ("See anna.schmidt.example", ["Anna Schmidt"]),
    ("Ask about the smith", ["Joe Smith"]),
    ("Meet in May", ["May Lind"]),
    ("Mark it as done", ["Mark Weber"]),
    ("रामेश को बुलाओ", ["राम कुमार"]),
    ("Invite Anna", ["Anna " + "Schmidt " * 40]),
    ("Plan with the courts", ["District Court"]),
    ("Invite Anna: " + "what follows was pasted " * 900, ["Anna Schmidt"]),
    ("招待: 佐藤 " + "what follows was pasted " * 900, ["佐藤さくら"]),
]
"""Someone else is meant, or it is not clear who."""


async def kind_of_person(said: str, names: list[str], scheme: str = "invite") -> str:
    @tool(effect=READ, touches=lambda **_: ())
    def look() -> list[dict[str, Annotated[str, Own]]]:
        """List people."""
        rows = enumerate(names)
        return [{"email": f"p{at}@x.example", "name": name, "city": "Ulm"} for at, name in rows]

    @tool(effect=WRITE, touches=lambda who, **_: Access(WRITE, f"{scheme}:{who}"))
    def invite(who: str) -> str:
        """Invite someone."""
        return who

    executor = Executor(Toolset(look, invite))
    turn = executor.turn("1", run="R", said=[said])
    await executor.run(Call("look", {}, "c1"), turn=turn)
    later = executor.turn("2", run="R")
    call = Call("invite", {"who": "p0@x.example"}, "c2")
    return executor.explain(call, turn=later).sources[0].kind


@pytest.mark.anyio
@pytest.mark.parametrize(("said", "names"), PEOPLE)
async def test_people_name_others_in_their_language(said: str, names: list[str]) -> None:
    assert await kind_of_person(said, names) == "person"


@pytest.mark.anyio
@pytest.mark.parametrize(("said", "names"), OTHER_PEOPLE)
async def test_a_word_of_a_name_names_no_one_else(said: str, names: list[str]) -> None:
    assert await kind_of_person(said, names) == "own"


@pytest.mark.anyio
@pytest.mark.parametrize(("name", "scheme"), [("Hotel Ulm", "invite"), ("Ibis London", "hotel")])
async def test_a_city_names_no_hotel(name: str, scheme: str) -> None:
    said = "Find something in Ulm or London"

    assert await kind_of_person(said, [name], scheme) == "own"
