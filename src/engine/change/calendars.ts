import { Calendar } from '../../core/schedule/calendar.ts';
import type { CalendarDefinition, ScheduleBounds } from '../../core/schedule/types.ts';

/** The exclusion calendars as they stand now, made ready when they are first used. */
export class Calendars {
  readonly #definitions: ReadonlyMap<string, CalendarDefinition>;
  readonly #ready = new Map<string, Calendar>();

  constructor(stored: readonly { name: string; definition: CalendarDefinition }[] = []) {
    this.#definitions = new Map(stored.map(({ name, definition }) => [name, definition]));
  }

  /** The calendar, or undefined; it is what `ScheduleContext.calendar` asks for. */
  readonly named = (name: string): Calendar | undefined => {
    const ready = this.#ready.get(name);
    if (ready !== undefined) return ready;
    const definition = this.#definitions.get(name);
    if (definition === undefined) return undefined;
    const calendar = new Calendar(definition);
    this.#ready.set(name, calendar);
    return calendar;
  };

  /** Definitions of those that the bounds name, for the job record; undefined where they name none. */
  of(bounds: ScheduleBounds): Record<string, CalendarDefinition> | undefined {
    if (bounds.calendars === undefined || bounds.calendars.length === 0) return undefined;
    const used = bounds.calendars.flatMap((name) => {
      const definition = this.#definitions.get(name);
      return definition === undefined ? [] : [[name, definition] as const];
    });
    return Object.fromEntries(used);
  }
}
