import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { carillonError, ERRORS, isCode } from '../../src/core/errors.ts';

/** Rows of the table below the heading "Errors" of the design document. */
function documented(): string[][] {
  const text = readFileSync(new URL('../../src/DESIGN.md', import.meta.url), 'utf8');
  const section = /^## Errors$([\s\S]*?)(?=^## |(?![\s\S]))/m.exec(text)?.[1] ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('| `'));
  return rows.map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

describe('errors', () => {
  it('the table of the code and that of the design document are the same, in both directions and in order', () => {
    const inCode = Object.entries(ERRORS).map(([code, { status, title, retryable }]) => [
      `\`${code}\``,
      String(status),
      title,
      retryable ? 'yes' : 'no',
    ]);
    expect(inCode.length).toBeGreaterThan(20);
    expect(documented()).toEqual(inCode);
  });

  it('what may be repeated is a matter of the installation, not of the request', () => {
    for (const [code, { status, retryable }] of Object.entries(ERRORS)) {
      if (retryable) expect(status === 429 || status >= 500, code).toBe(true);
      else expect(status, code).not.toBe(503);
    }
  });

  it('carry code, detail, place and cause', () => {
    const cause = new Error('parser');
    const error = carillonError(
      'schedule-invalid',
      'no such month',
      { field: 'schedule.expression', token: 'FOO' },
      cause,
    );
    expect(error).toMatchObject({
      code: 'schedule-invalid',
      field: 'schedule.expression',
      token: 'FOO',
      retryable: false,
      cause,
    });
    expect(error.message).toBe('The schedule cannot be read: no such month');
    expect(isCode(error, 'schedule-invalid')).toBe(true);
    expect(isCode(error, 'internal')).toBe(false);
    expect(isCode(cause, 'internal')).toBe(false);
  });

  it('show at most 80 characters of a token, and no half of a surrogate pair', () => {
    const token = `${'x'.repeat(79)}📦${'y'.repeat(1_000_000)}`;
    expect(carillonError('zone-unknown', 'it', { token }).token).toBe(`${'x'.repeat(79)}\ufffd`);
  });
});
