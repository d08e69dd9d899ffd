"""Makes bench/oracle/cron-table.json: what demos and benchmarks expect of cron jobs, made without the engine.

Run: pip install croniter==7.0.0 tzdata==2026.4 && PYTHONTZPATH= python3 bench/oracle/make_cron_table.py

- `expressions`: 6-field crons (second first) whose fires are the same on every day; per expression the local seconds of the
  day at which croniter fires it on 2027-06-15 in UTC, as [first, step, count] runs. Not used within 3 h of a clock change.
- `zones`: 100 zones; per zone [UTC seconds, offset in seconds] pairs from 2026 to 2041, read from the compiled IANA data of
  the PyPI package tzdata by Python's zoneinfo.
- `previews`: for each cron line of bench/demo/debian-cron.json the next ten fires after 2027-03-13T00:00:00Z in
  Europe/Madrid, by croniter; null where the line is no time (`@reboot`).
"""
import json, os, re
from datetime import datetime, timedelta, timezone
from importlib.metadata import version
from zoneinfo import ZoneInfo
from croniter import croniter

HERE = os.path.dirname(os.path.abspath(__file__))
EXPRESSIONS = (
    [f"{s} * * * * *" for s in (0, 7, 19, 31, 44, 58)]
    + [f"*/{n} * * * * *" for n in (2, 3, 4, 5, 6, 10, 12, 15, 20, 30)]
    + [f"{s}/{n} * * * * *" for s, n in ((1, 10), (3, 10), (4, 10), (6, 10), (7, 10), (9, 10), (2, 15), (11, 20))]
    + ["5,17,23,42 * * * * *", "10-20 * * * * *", "*/7 * * * * *", "0,30 */2 * * * *", "*/10 1-58/3 * * * *",
       "15 0-59/5 * * * *", "*/20 * 8-20 * * *", "*/30 * 20-6 * * *", "3-59/8 * */2 * * *", "0 * * * * *"])
ZONES = """UTC Europe/London Europe/Madrid Europe/Paris Europe/Berlin Europe/Helsinki Europe/Istanbul Europe/Moscow
Europe/Dublin Africa/Cairo Africa/Lagos Africa/Nairobi Africa/Johannesburg Africa/Casablanca America/New_York
America/Chicago America/Denver America/Phoenix America/Los_Angeles America/Anchorage America/Halifax America/St_Johns
America/Sao_Paulo America/Santiago America/Bogota America/Caracas America/Mexico_City America/Vancouver America/Edmonton
Asia/Dubai Asia/Tehran Asia/Karachi Asia/Kolkata Asia/Kathmandu Asia/Dhaka Asia/Yangon Asia/Bangkok Asia/Shanghai
Asia/Tokyo Asia/Seoul Asia/Jerusalem Asia/Colombo Australia/Perth Australia/Eucla Australia/Darwin Australia/Adelaide
Australia/Sydney Australia/Lord_Howe Pacific/Auckland Pacific/Chatham
Europe/Lisbon Europe/Brussels Europe/Amsterdam Europe/Zurich Europe/Vienna Europe/Rome Europe/Prague Europe/Warsaw
Europe/Stockholm Europe/Oslo Europe/Athens Europe/Bucharest Europe/Sofia Europe/Kyiv Europe/Minsk Europe/Samara
Atlantic/Azores Atlantic/Reykjavik Africa/Algiers Africa/Tunis Africa/Accra Africa/Addis_Ababa Africa/Khartoum
Africa/Windhoek America/Toronto America/Winnipeg America/Regina America/Boise America/Detroit America/Havana
America/Panama America/Lima America/La_Paz America/Asuncion America/Montevideo America/Puerto_Rico America/Nuuk
Asia/Riyadh Asia/Baku Asia/Tbilisi Asia/Yekaterinburg Asia/Novosibirsk Asia/Vladivostok Asia/Kabul Asia/Jakarta
Asia/Manila Asia/Taipei Pacific/Honolulu Pacific/Fiji Pacific/Apia""".split()


def runs(seconds):
    """Sorted numbers as [first, step, count] runs: 0 20 40 60 -> [[0, 20, 4]]."""
    out = []
    for s in seconds:
        if out:
            first, step, count = out[-1]
            if count == 1:
                out[-1] = [first, s - first, 2]
                continue
            if s == first + step * count:
                out[-1][2] += 1
                continue
        out.append([s, 0, 1])
    return out


def day_seconds(expression):
    day = datetime(2027, 6, 15, tzinfo=timezone.utc)
    it = croniter(expression, day - timedelta(seconds=1), second_at_beginning=True)
    out = []
    while True:
        fire = it.get_next(datetime)
        if fire >= day + timedelta(days=1):
            return out
        out.append(int((fire - day).total_seconds()))


def offsets(name):
    zone, out = ZoneInfo(name), []
    at, end = int(datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp()), int(datetime(2041, 1, 1, tzinfo=timezone.utc).timestamp())

    def offset(t):
        return int(datetime.fromtimestamp(t, zone).utcoffset().total_seconds())

    out.append([at, offset(at)])
    while at < end:
        step = at + 6 * 3600
        if offset(step) != out[-1][1]:
            low, high = at, step
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(middle) == out[-1][1] else (low, middle)
            out.append([high, offset(high)])
        at = step
    return out


def preview(line):
    match = re.match(r"\s*((?:\S+\s+){4}\S+)\s", line)
    if line.lstrip().startswith("@") or not match:
        return None
    it = croniter(match.group(1), datetime(2027, 3, 13, tzinfo=timezone.utc).astimezone(ZoneInfo("Europe/Madrid")))
    return [it.get_next(datetime).astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ") for _ in range(10)]


with open(os.path.join(HERE, "../demo/debian-cron.json"), encoding="utf8") as f:
    lines = [line for tab in json.load(f) for line in tab["lines"]]
table = {
    "maker": f"make_cron_table.py, croniter {version('croniter')}, tzdata {version('tzdata')} of PyPI (IANA 2026d)",
    "expressions": {e: runs(day_seconds(e)) for e in dict.fromkeys(EXPRESSIONS)},
    "zones": {z: offsets(z) for z in ZONES},
    "previews": {line: preview(line) for line in lines},
}
with open(os.path.join(HERE, "cron-table.json"), "w", encoding="utf8") as f:
    f.write("{\n")
    for i, (key, value) in enumerate(table.items()):
        if isinstance(value, dict):
            body = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            f.write(f"  {json.dumps(key)}: {{\n{body}\n  }}")
        else:
            f.write(f"  {json.dumps(key)}: {json.dumps(value)}")
        f.write(",\n" if i < len(table) - 1 else "\n")
    f.write("}\n")
