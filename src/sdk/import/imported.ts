import { CarillonError } from '../../core/errors.ts';
import type { JobForm } from '../../core/form/job-form.ts';
import { checkKey, formField, formWords, readDefinition } from '../../core/form/read.ts';
import { compileSchedule, firstOccurrence, normalSchedule } from '../../core/schedule/schedule.ts';

/** A job that an importer made, and where in the file it came from. */
export interface ImportedJob {
  /** From 1. */
  line: number;
  form: JobForm;
}

/** A part of the file that is no job here, with the reason and, where there is one, the mend. */
export interface Refusal {
  line: number;
  /** The part as it stands in the file, cut. */
  text: string;
  field?: string;
  reason: string;
}

/** Something that is imported and means less here than where it came from. */
export interface ImportNote {
  line: number;
  text: string;
}

/** What an importer makes of a file: a bad part never stops the rest. */
export interface Import {
  jobs: ImportedJob[];
  refused: Refusal[];
  notes: ImportNote[];
}

/** What a decoder puts for bytes that are not UTF-8: a job with it in its command would run another command. */
export const NOT_UTF8 = {
  character: '\ufffd',
  reason: 'it is not UTF-8: convert the file, for one with iconv -f latin1 -t utf-8',
} as const;

/** Largest file that is read, in bytes: it is in memory at once. */
export const IMPORT_BYTES = 16 * 1024 * 1024;
/** Characters of a refused part that are shown. */
const SHOWN_CHARS = 120;

/** Collects the results of an import; `take` makes the checks of a registration, so that a dry run tells all that would fail. */
export class Importer {
  readonly result: Import = { jobs: [], refused: [], notes: [] };
  private readonly nowMs: number;
  private readonly keys = new Map<string, number>();

  constructor(nowMs: number) {
    this.nowMs = nowMs;
  }

  take(line: number, text: string, form: JobForm): void {
    const earlier = this.keys.get(form.key);
    if (earlier !== undefined) {
      this.refuse(line, text, `the job key ${form.key} stands in line ${earlier} already`, 'key');
      return;
    }
    try {
      checkForm(form, this.nowMs);
    } catch (error) {
      if (!(error instanceof CarillonError)) throw error;
      const field = error.field === undefined ? undefined : formField(error.field);
      this.refuse(line, text, formWords(error.message), field);
      return;
    }
    this.keys.set(form.key, line);
    this.result.jobs.push({ line, form });
  }

  refuse(line: number, text: string, reason: string, field?: string): void {
    const shown = text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text;
    this.result.refused.push({ line, text: shown, reason, ...(field !== undefined && { field }) });
  }

  note(line: number, text: string): void {
    this.result.notes.push({ line, text });
  }
}

/** @throws CarillonError as a registration would, but for calendars, which only the installation knows */
function checkForm(form: JobForm, nowMs: number): void {
  checkKey(form.key);
  const { payload, ...rest } = form;
  const definition = readDefinition({ ...rest, payload: JSON.stringify(payload ?? null) }, nowMs);
  const context = { key: form.key, createdMs: nowMs };
  const normal = normalSchedule(definition.schedule, definition.bounds, context);
  firstOccurrence(compileSchedule(normal.schedule, normal.bounds, context), normal.schedule, nowMs);
}

/** A part of a job key from a name of the file: without control characters, cut to `bytes` bytes of UTF-8. */
export function keyPart(name: string, bytes: number): string {
  const encoder = new TextEncoder();
  let part = '';
  let used = 0;
  for (const character of name.toWellFormed()) {
    const safe = /\p{Cc}/u.test(character) ? '_' : character;
    used += encoder.encode(safe).length;
    if (used > bytes) break;
    part += safe;
  }
  return part;
}
