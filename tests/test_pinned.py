"""What runs in CI is pinned: actions by commit, and packages by the hashes of their files."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_actions_are_pinned_by_commit():
    workflows = list((ROOT / ".github" / "workflows").glob("*.y*ml"))
    uses = [line for file in workflows for line in re.findall(r"uses: *(.*)", file.read_text())]
    assert uses
    assert [one for one in uses if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", one)] == []


def test_the_lock_has_the_versions_of_the_constraints_with_hashes():
    pinned = re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / "constraints.txt").read_text(), re.M)
    blocks = re.split(r"\n(?=\w)", (ROOT / "requirements.lock").read_text())[1:]
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", block) for block in blocks)
    locked = {normalize(*block.split(" ")[0].split("==")) for block in blocks}
    assert len(pinned) > 100
    assert {normalize(*one) for one in pinned} <= locked


def normalize(name: str, version: str) -> str:
    return f"{re.sub('[-_.]+', '-', name.lower())}=={version}"
