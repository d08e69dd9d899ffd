import { readFileSync, writeFileSync } from 'node:fs';
import { picture } from './picture.ts';
import type { Result } from './result.ts';

/** Writes a result as JSON, and its picture beside it where it has lateness over time. */
export function writeResult(file: string, result: Result): void {
  writeFileSync(file, `${JSON.stringify(result, null, 2)}\n`);
  if (result.series !== undefined) writeFileSync(file.replace(/(\.json)?$/, '.svg'), picture(result, result.series));
}

export function readResult(file: string): Result {
  return JSON.parse(readFileSync(file, 'utf8')) as Result;
}
