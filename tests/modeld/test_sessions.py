"""What sessions stand for, and which give way."""

from modeld.contents import Contents
from modeld.sessions import SessionLimits, Sessions
from modelwire.messages import ChatMessage


def real(sessions: Sessions, client: str, name: str) -> None:
    session = sessions.open(client, name, speculative=False)
    assert session
    session.contents = Contents(ids=bytes(4))
    sessions.check()


def test_the_session_used_longest_ago_gives_way_to_a_new_one_of_its_client() -> None:
    sessions = Sessions(SessionLimits(per_client=2, total=10))
    for name in ("a", "b"):
        real(sessions, "ann", name)
    sessions.find("ann", "a")
    real(sessions, "bob", "a")
    real(sessions, "ann", "c")
    assert sessions.take_closed() == (("ann", "b"),)
    assert sessions.take_closed() == ()


def test_s11_sessions_closed_since_are_named_with_those_that_did_not_reach_the_engine() -> None:
    sessions = Sessions()
    for name in ("a", "b"):
        real(sessions, "ann", name)
    sessions.close("ann", "a")
    closed = sessions.take_closed()
    sessions.close("ann", "b")
    sessions.put_back(closed)
    assert sessions.take_closed() == (("ann", "a"), ("ann", "b"))


def test_all_clients_together_have_a_bound() -> None:
    sessions = Sessions(SessionLimits(per_client=2, total=2))
    for client in ("ann", "bob", "cy"):
        real(sessions, client, "a")
    assert sessions.take_closed() == (("ann", "a"),)
    assert sessions.clients == {"bob", "cy"}


def test_a_session_that_only_a_guess_made_gives_way_first() -> None:
    sessions = Sessions(SessionLimits(per_client=2))
    real(sessions, "ann", "real")
    assert sessions.open("ann", "guessed", speculative=True)
    real(sessions, "ann", "other")
    assert sessions.find("ann", "real")
    assert sessions.find("ann", "guessed") is None


def test_a_guess_makes_no_real_session_give_way() -> None:
    """S7, for the front's records."""
    sessions = Sessions(SessionLimits(per_client=1))
    real(sessions, "ann", "real")
    assert sessions.open("ann", "guessed", speculative=True) is None
    assert sessions.open("ann", "real", speculative=True) is sessions.find("ann", "real")


def test_closing_says_whether_there_was_anything() -> None:
    sessions = Sessions()
    real(sessions, "ann", "a")
    real(sessions, "ann", "b")
    assert sessions.close("ann", "a")
    assert not sessions.close("ann", "a")
    assert sessions.close_all("ann") == 1
    assert sessions.close_all("ann") == 0
    assert sessions.take_closed() == (("ann", "a"), ("ann", "b"))


def test_an_answer_under_way_becomes_a_message_of_the_conversation() -> None:
    question = ChatMessage(role="user", content="why")
    assert Contents(chat=(question,), answer="").conversation == (question,)
    answered = Contents(chat=(question,), answer="so").conversation
    assert answered == (question, ChatMessage(role="assistant", content="so"))
