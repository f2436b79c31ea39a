"""Carbon and cost stand beside joules with their label, only if they are asked for."""

import math

import pytest
from support import traces
from support.command_line import tprof as command
from support.runs import Work, write_run
from tprof.analysis.emissions import Footprint, Rates, zones

import tprof


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("carbon")
    traces.write(place / "t.tprof")  # 25 J
    write_run(place / "other.tprof", [Work("blur")])
    return place


def test_a_kilowatt_hour_has_the_grams_and_the_price_of_its_rates():
    rates = Rates.of("350", "0.30 EUR")
    one = Footprint(3.6e6, 1.8e6, 7.2e6, "measured", rates, ("package-0",))

    assert one.emissions_g == pytest.approx(350)
    assert (one.emissions_low_g, one.emissions_high_g) == pytest.approx((175, 700))
    assert one.cost == pytest.approx(0.30)
    assert one.text() == (
        "3600 kJ (measured) are 350 g (175 g … 700 g) of CO2 equivalents at 350 g/kWh (given) and 0.3 EUR at 0.3 EUR "
        "per kWh; this is package-0 alone: memory, disks, network, cooling and the making of the machine are not in it "
        "unless the sensor covers them"
    )


def test_zones_have_a_year_and_plausible_intensities():
    found = zones()

    assert found["DE"].g_per_kwh == 381  # Our World in Data, 2023
    assert found["FR"].g_per_kwh == 56
    assert all(0 < zone.g_per_kwh < 1000 and zone.year >= 2023 for zone in found.values())
    assert all(code == "WORLD" or (len(code) == 2 and code.isupper()) for code in found)


def test_nothing_is_shown_unless_it_is_asked_for(folder):
    assert "CO2" not in command("summary", "t.tprof", cwd=folder).stdout


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("summary", "t.tprof", "--co2", "fr"), ("25 J (given) are 389 µg", "56 g/kWh (mean of France in 2023")),
        (("summary", "t.tprof", "--price", "0.36"), ("25 J (given) are 2.5e-06 at 0.36 per kWh", "package-0 alone")),
        (
            ("compare", "t.tprof", "other.tprof", "--co2", "360"),
            ("A: 25 J (given) are 2.5 mg", "(simulated) are"),
        ),
    ],
)
def test_commands_print_a_line_beside_the_joules(folder, words, parts):
    said = command(*words, cwd=folder).stdout

    assert all(part in " ".join(said.split()) for part in parts), said


def test_json_and_the_report_have_them_too(folder):
    said = command("summary", "t.tprof", "--co2", "360", "--json", cwd=folder).stdout
    command("report", "t.tprof", "--co2", "360", "--plotly", "folder", "-o", "r.html", cwd=folder)

    assert '"emissions_g": 0.0025' in said
    assert "2.5 mg of CO2 equivalents at 360 g/kWh" in (folder / "r.html").read_text("utf-8")


def test_a_profile_says_its_emissions(folder):
    profile = tprof.load(folder / "t.tprof").profile()

    assert profile.emissions(g_per_kwh=360).emissions_g == pytest.approx(25 / 1e4)
    assert profile.emissions(zone="WORLD").rates.g_per_kwh == 481
    assert math.isnan(profile.emissions(zone="WORLD").cost)
    with pytest.raises(tprof.UsageError, match="give either g_per_kwh or a zone"):
        profile.emissions()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--co2", "XX"), "--co2 takes grams per kWh or a zone of WORLD, AR"),
        (("--co2", "-1"), "--co2 takes 0 to 5000 grams per kWh"),
        (("--price", "much"), "--price takes the price of a kWh such as 0.30 or '0.30 EUR', got 'much'"),
        (("--price", "1e9"), "--price takes"),
    ],
)
def test_a_wrong_rate_is_one_sentence(folder, words, sentence):
    said = command("summary", "t.tprof", *words, cwd=folder)

    assert said.returncode == 2
    assert sentence in said.stderr
