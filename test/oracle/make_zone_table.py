"""Makes test/oracle/zone-offsets.json.gz: the UTC offsets of every zone, from other data and other code than the engine's.

    pip install --target /tmp/tz tzdata==2026.4 && python3 test/oracle/make_zone_table.py /tmp/tz

The data are the compiled IANA zones of PyPI's `tzdata`, read by Python's `zoneinfo`; the engine reads the source lines of
npm's `tzdata`. Maker and versions stand in the head of the table. Offsets are sampled every 6 hours; between two samples that
differ the change is found by halving.
"""

import gzip
import json
import pathlib
import platform
import sys
from datetime import datetime, timezone

sys.path.insert(0, sys.argv[1])
import tzdata  # noqa: E402
import zoneinfo  # noqa: E402

zoneinfo.reset_tzpath([])  # The package only, never the files of this machine.

FROM = datetime(2016, 1, 1, tzinfo=timezone.utc)
UNTIL = datetime(2100, 1, 1, tzinfo=timezone.utc)
STEP = 6 * 3600


def offset(zone: zoneinfo.ZoneInfo, at: int) -> int:
    """Seconds east of UTC."""
    return int(datetime.fromtimestamp(at, timezone.utc).astimezone(zone).utcoffset().total_seconds())


def changes(zone: zoneinfo.ZoneInfo) -> list[list[int]]:
    """[UTC second, offset from then on], the first at FROM."""
    start, end = int(FROM.timestamp()), int(UNTIL.timestamp())
    found = [[start, offset(zone, start)]]
    for sample in range(start + STEP, end + 1, STEP):
        if offset(zone, sample) == found[-1][1]:
            continue
        before, after = sample - STEP, sample
        while after - before > 1:
            middle = (before + after) // 2
            if offset(zone, middle) == found[-1][1]:
                before = middle
            else:
                after = middle
        found.append([after, offset(zone, after)])
    return found


zones: dict[str, object] = {}
first_with: dict[str, str] = {}
for name in sorted(zoneinfo.available_timezones()):
    rows = changes(zoneinfo.ZoneInfo(name))
    # A zone that is equal to an earlier one is given by that one's name.
    earlier = first_with.setdefault(json.dumps(rows), name)
    zones[name] = rows if earlier == name else earlier

table = {
    "maker": f"test/oracle/make_zone_table.py, Python {platform.python_version()} zoneinfo, tzdata {tzdata.__version__} of PyPI",
    "iana": tzdata.IANA_VERSION,
    "from": int(FROM.timestamp()),
    "until": int(UNTIL.timestamp()),
    "zones": zones,
}
target = pathlib.Path(__file__).parent / "zone-offsets.json.gz"
target.write_bytes(gzip.compress(json.dumps(table, separators=(",", ":")).encode(), 9, mtime=0))
print(f"{len(zones)} zones, {len(first_with)} distinct, {target.stat().st_size} bytes")
