"""A tenant that keeps profiles without end, or one without end."""

from pathlib import Path

import pytest

from devices.drivers.browser import profiles
from devices.drivers.browser.profiles import Profile
from guiagent.errors import FaultError, UsageError
from guiagent.types import ResetSpec
from tests.support.browser_pages import BLIND, running


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def save(name: str, folder: Path, size: int) -> None:
    """Save a profile of so many bytes, and as many again that are caches."""
    for place in (folder / "Default" / "Cookies", folder / "Default" / "Cache" / "data"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(bytes(size))
    profile = Profile(name)
    profile.save(folder)
    profile.release()


def test_one_profile_has_an_end_at_which_it_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(profiles, "MAX_BYTES", 1000)
    save("ada", tmp_path / "profile", 1000)
    save("ada", tmp_path / "profile", 1001)
    assert profiles.kept() == [("ada", 1000)]
    assert "the profile ada stays as it was before: more than 1000 bytes" in caplog.text


def test_a_tenant_has_so_many_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "MAX_PROFILES", 2)
    for name in ("tenant.a", "tenant.b"):
        save(name, tmp_path / "profile", 10)
    with pytest.raises(FaultError, match=r"too_many_profiles.*guiagent profile delete"):
        Profile("tenant.c")
    Profile("tenant.a").release()
    save("other.a", tmp_path / "profile", 10)
    profiles.delete("tenant.b")
    save("tenant.c", tmp_path / "profile", 10)
    assert [one.name for one in profiles.kept()] == ["other.a", "tenant.a", "tenant.c"]
    with pytest.raises(UsageError, match=r"no profile .tenant\.b.; there are other"):
        profiles.delete("tenant.b")


async def test_one_in_use_is_not_deleted_and_a_killed_browser_changes_nothing(state: Path) -> None:
    async with running() as device:
        await device.reset(0, ResetSpec(profile="ada"), BLIND)
        with pytest.raises(FaultError, match="in use by another browser") as caught:
            Profile("ada")
        assert caught.value.fault.code == "profile_in_use"
        await device.reset(0, ResetSpec(), BLIND)  # saves it
        (kept,) = profiles.kept()
        assert kept.size > 0
        assert not list((state / "profiles").rglob("Cache"))
        await device.reset(0, ResetSpec(profile="ada"), BLIND)
        with pytest.raises(FaultError, match="in use by another browser"):
            profiles.delete("ada")
    profiles.delete("ada")
    assert list((state / "profiles").iterdir()) == []


def test_two_renames_that_were_cut_apart_are_mended(tmp_path: Path, state: Path) -> None:
    save("ada", tmp_path / "profile", 10)
    (state / "profiles" / "ada").rename(state / "profiles" / ".ada.old")
    Profile("ada").release()
    assert profiles.kept() == [("ada", 10)]
