import { readFileSync } from 'node:fs';
import { carillonError } from '../core/errors.ts';
import type { CalendarDefinition } from '../core/schedule/types.ts';
import {
  CONNECTION,
  CONNECTION_USAGE,
  clientOf,
  print,
  printJson,
  readArguments,
  subcommands,
  visible,
} from './options.ts';

const USAGE = `Usage: carillon calendar list | show NAME | put NAME FILE | delete NAME [options]

Exclusion calendars: times at which the jobs that name them do not fire. FILE is JSON (- is standard input) with any of
zone, dates, yearly, ranges, weekdays and times, such as {"zone":"Europe/Madrid","weekdays":["sat","sun"]}.
${CONNECTION_USAGE}`;

/** Exclusion calendars. */
export const calendarCommand = subcommands(USAGE, {
  list: async (args) => {
    const { values } = readArguments(args, CONNECTION, [], USAGE);
    const calendars = await clientOf(values).calendars.list();
    if (values.json) printJson(calendars);
    else if (calendars.length === 0) print('no calendars');
    else for (const { name, version } of calendars) print(`${visible(name)}, version ${version}`);
    return 0;
  },
  show: async (args) => {
    const { values, words } = readArguments(args, CONNECTION, ['NAME'], USAGE);
    printJson(await clientOf(values).calendars.get(words[0]!));
    return 0;
  },
  put: async (args) => {
    const { values, words } = readArguments(args, CONNECTION, ['NAME', 'FILE'], USAGE);
    const calendar = await clientOf(values).calendars.put(words[0]!, definitionIn(words[1]!));
    if (values.json) printJson(calendar);
    else print(`calendar ${visible(calendar.name)}, version ${calendar.version}`);
    return 0;
  },
  delete: async (args) => {
    const { values, words } = readArguments(args, CONNECTION, ['NAME'], USAGE);
    await clientOf(values).calendars.delete(words[0]!);
    if (values.json) printJson({ result: 'deleted', name: words[0] });
    else print(`deleted ${visible(words[0]!)}`);
    return 0;
  },
});

function definitionIn(file: string): CalendarDefinition {
  try {
    return JSON.parse(readFileSync(file === '-' ? 0 : file, 'utf8'));
  } catch (error) {
    throw carillonError('request-malformed', (error as Error).message, { field: 'FILE' });
  }
}
