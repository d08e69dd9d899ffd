import { describe, expect, it } from 'vitest';
import { manualClock } from '../../../src/adapters/memory/clock.ts';
import { checkClockSkew, portRefusal } from '../../../src/runtime/start-checks.ts';

describe('clock skew against a store', () => {
  /** A store whose clock is ahead by `aheadMs` and whose answers take these round trips, read in the middle. */
  function store(aheadMs: number, roundTripsMs: number[]) {
    const clock = manualClock(1_000_000);
    const trips = [...roundTripsMs];
    const timeMs = async (): Promise<number> => {
      const trip = trips.shift() ?? 0;
      await clock.advance(trip / 2);
      const time = clock.wallMs() + aheadMs;
      await clock.advance(trip / 2);
      return time;
    };
    return checkClockSkew(clock, 'MongoDB', timeMs);
  }

  it.each([0, 499, -499])('%i ms is taken', async (ahead) => {
    await store(ahead, [4, 4, 4, 4, 4]);
  });

  it.each([
    [850, 'behind'],
    [-850, 'ahead of'],
  ])('%i ms is refused: this machine is %s', async (ahead, direction) => {
    await expect(store(ahead, [4, 4, 4, 4, 4])).rejects.toMatchObject({
      code: 'setup-refused',
      detail: expect.stringMatching(new RegExp(`clock is 850 ms ${direction} MongoDB's.*NTP`)),
    });
  });

  it('goes by the quickest answer, and gives a doubt to the set-up', async () => {
    await store(0, [2_000, 2_000, 6, 2_000, 2_000]);
    await store(600, [400, 400, 400, 400, 400]);
    await expect(store(600, [400, 400, 10, 400, 400])).rejects.toMatchObject({ code: 'setup-refused' });
  });
});

describe('a port that cannot be had', () => {
  const where = { host: '127.0.0.1', port: 7171, setting: 'listenPort' as const };
  it.each([
    ['EADDRINUSE', /port 7171 on 127\.0\.0\.1 is taken .* set listenPort \(CARILLON_LISTEN_PORT\) to a free port/],
    ['EACCES', /port 7171 .* not allowed/],
    ['EADDRNOTAVAIL', /no address of this machine/],
  ])('%s is refused with the mend', (code, detail) => {
    expect(portRefusal(Object.assign(new Error(code), { code }), where)).toMatchObject({
      code: 'setup-refused',
      detail: expect.stringMatching(detail),
    });
  });

  it('another error stays what it is', () => {
    const error = new Error('else');
    expect(portRefusal(error, where)).toBe(error);
  });
});
