import { afterAll, beforeAll, describe } from 'vitest';
import type { Bus } from '../../src/ports/bus.ts';
import { groupStatements } from './bus-group.contract.ts';
import { laneStatements } from './bus-lane.contract.ts';
import { logStatements } from './bus-log.contract.ts';

export interface BusOpening {
  bus: Bus;
  /** A name that nobody else uses on this server: topics, groups and lane ids of the tests are made with it. */
  unique(name: string): string;
  /** Another bus on the same data, as of a second process (for memory: the same one). It is closed by the suite. */
  another(): Promise<Bus>;
  /** Closes the bus and opens the same data again; absent where nothing outlives the process. */
  reopen?(): Promise<Bus>;
  close(): Promise<void>;
}

export type Opened = () => BusOpening;

/** Every statement of `src/ports/bus.ts` as a test. The bus is opened once for the suite. */
export function busContract(name: string, open: () => Promise<BusOpening>): void {
  describe(`bus: ${name}`, () => {
    let opening: BusOpening;
    beforeAll(async () => {
      opening = await open();
      const { reopen } = opening;
      if (reopen !== undefined) opening.reopen = async () => (opening.bus = await reopen());
    });
    afterAll(async () => {
      await opening?.close();
    });
    const opened: Opened = () => opening;
    describe('topics, producers and readers', () => logStatements(opened));
    describe('lanes', () => laneStatements(opened));
    describe('groups', () => groupStatements(opened));
  });
}
