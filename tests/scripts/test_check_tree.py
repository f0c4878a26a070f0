from pathlib import Path

import pytest

from scripts import check_tree


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    Path("docs/page.md").write_text("# A page, of `words`\n\n## Second part\n")
    return tmp_path


def faults(text: str, name: str = "README.md") -> list[str]:
    page = Path(name)
    page.write_text(text)
    files = [page, Path("docs/page.md")]
    return [*check_tree.forbidden(page), *check_tree.dead_links(page, files)]


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    "link",
    [
        "docs/page.md",
        "docs",
        "docs/page.md#second-part",
        "docs/page.md#a-page-of-words",
        "https://example.org/x",
        "#top",
    ],
)
def test_a_link_that_leads_somewhere_is_fine(link: str) -> None:
    assert faults(f"# Top\n\nSee [this]({link}).\n") == []


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("link", ["docs/gone.md", "page.md", "docs/page.md#third-part", "#nowhere"])
def test_a_link_that_leads_nowhere_is_found(link: str) -> None:
    assert "leads nowhere" in "".join(faults(f"See [this]({link}).\n"))


@pytest.mark.usefixtures("tree")
def test_a_link_within_a_code_block_is_no_link() -> None:
    assert faults("```\n[x](gone.md)\n```\n") == []


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("what", ["/ho" + "me/someone/project", "https://py" + "pi.org/simple", "--index-" + "url"])
def test_a_path_or_an_address_of_one_machine_is_found(what: str) -> None:
    assert "README.md:2" in "".join(faults(f"first line\nuse {what} here\n"))


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("what", ["build/ho" + "me/x", "~/wo" + "rk/x", "framework/o" + "pt/x", "/usr/bin/env"])
def test_other_paths_are_fine(what: str) -> None:
    assert faults(f"use {what} here\n") == []
