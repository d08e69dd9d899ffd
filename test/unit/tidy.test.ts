import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { METRICS } from '../../src/runtime/metric-table.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** What runs as the product; functions are measured here only, since a test's `describe` is one function. */
const PRODUCT = ['src', 'shard-manager', 'trigger-worker'];
const ALL = [...PRODUCT, 'test', 'bench', 'deploy'];

const FILE_LINES = 500;
const FUNCTION_LINES = 70;
const PORT_METHODS = 12;

const files = ALL.filter((folder) => existsSync(join(ROOT, folder)))
  .flatMap(typescriptIn)
  .map((path) => {
    const text = readFileSync(path, 'utf8');
    return { path: relative(ROOT, path), text, source: ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true) };
  });
const product = files.filter(({ path }) => PRODUCT.some((folder) => path.startsWith(`${folder}/`)));

function typescriptIn(folder: string): string[] {
  const entries = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name));
}

/** Every node of a file, with what `found` says of it, if it says anything. */
function findings(file: (typeof files)[number], found: (node: ts.Node) => string | null): string[] {
  const told: string[] = [];
  const visit = (node: ts.Node): void => {
    const what = found(node);
    if (what !== null) {
      const { line } = file.source.getLineAndCharacterOfPosition(node.getStart());
      told.push(`${file.path}:${line + 1} ${what}`);
    }
    ts.forEachChild(node, visit);
  };
  visit(file.source);
  return told;
}

const lineCount = (text: string): number => text.split('\n').length - (text.endsWith('\n') ? 1 : 0);

describe('tidy', () => {
  it('reads the whole project', () => {
    expect(files.length).toBeGreaterThan(80);
    for (const folder of ['src', 'shard-manager', 'test']) {
      expect(
        files.some(({ path }) => path.startsWith(`${folder}/`)),
        folder,
      ).toBe(true);
    }
  });

  it(`files have at most ${FILE_LINES} lines`, () => {
    const long = files.filter(({ text }) => lineCount(text) > FILE_LINES);
    expect(long.map(({ path, text }) => `${path}: ${lineCount(text)}`)).toEqual([]);
  });

  it(`functions of the product have at most ${FUNCTION_LINES} lines`, () => {
    const long = product.flatMap((file) =>
      findings(file, (node) => {
        if (!ts.isFunctionLike(node) || !('body' in node) || node.body === undefined) return null;
        const lines = lineCount(node.getText());
        // A function that only makes an object or class of functions is as long as they are; each of them is measured.
        return lines > FUNCTION_LINES && ownLines(node) > FUNCTION_LINES ? `function of ${lines} lines` : null;
      }),
    );
    expect(long).toEqual([]);
  });

  it('core and engine take time from the clock port only', () => {
    const forbidden = /^(Date\.now|performance\.now|process\.hrtime(\.bigint)?)$/;
    const timers = /^(setTimeout|setInterval|setImmediate)$/;
    const pure = product.filter(({ path }) => /^src\/(core|engine)\//.test(path));
    const told = pure.flatMap((file) =>
      findings(file, (node) => {
        if (ts.isPropertyAccessExpression(node) && forbidden.test(node.getText())) return node.getText();
        if (ts.isIdentifier(node) && timers.test(node.text)) return node.text;
        if (ts.isNewExpression(node) && node.expression.getText() === 'Date' && !node.arguments?.length)
          return 'new Date()';
        return null;
      }),
    );
    expect(told).toEqual([]);
  });

  it('no file or folder is named for not knowing what is in it', () => {
    const vague = /^(utils?|helpers?|common|misc)$/;
    const named = files.filter(({ path }) => path.split('/').some((part) => vague.test(basename(part, '.ts'))));
    expect(named.map(({ path }) => path)).toEqual([]);
  });

  it('nothing is left over: no markers, no skipped or singled-out tests', () => {
    const markers = new RegExp(`\\b(${['TO' + 'DO', 'FIX' + 'ME', 'X'.repeat(3), 'HA' + 'CK'].join('|')})\\b`);
    const singled = new RegExp(`\\b(it|test|describe)\\.(${['on' + 'ly', 'sk' + 'ip'].join('|')})\\(`);
    const told = files.flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, n) => (markers.test(line) || singled.test(line) ? [`${path}:${n + 1}`] : [])),
    );
    expect(told).toEqual([]);
  });

  it(`ports have at most ${PORT_METHODS} methods`, () => {
    const ports = product.filter(({ path }) => path.startsWith('src/ports/'));
    const large = ports.flatMap((file) =>
      findings(file, (node) => {
        if (!ts.isInterfaceDeclaration(node)) return null;
        const methods = node.members.filter((member) => ts.isMethodSignature(member)).length;
        return methods > PORT_METHODS ? `${node.name.text}: ${methods} methods` : null;
      }),
    );
    expect(ports.length).toBeGreaterThan(5);
    expect(large).toEqual([]);
  });
});

describe('metrics', () => {
  /** `….count('name_total', …)`, and `telemetry.gauge('name', …)` under whatever object telemetry hangs. */
  const used = product.flatMap((file) => {
    const names: { name: string; type: string; where: string }[] = [];
    findings(file, (node) => {
      if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return null;
      const { expression: receiver, name: method } = node.expression;
      const [first] = node.arguments;
      if (first === undefined || !ts.isStringLiteralLike(first)) return null;
      const onTelemetry = /telemetry$/i.test(receiver.getText());
      const counts = method.text === 'count' && (onTelemetry || first.text.endsWith('_total'));
      if (counts) names.push({ name: first.text, type: 'counter', where: file.path });
      if (method.text === 'gauge' && onTelemetry) names.push({ name: first.text, type: 'gauge', where: file.path });
      return null;
    });
    return names;
  });

  it('every name used in the code is in the table, with its type', () => {
    const unknown = used.filter(({ name, type }) => METRICS[name]?.type !== type);
    expect(unknown.map(({ name, type, where }) => `${type} ${name} in ${where}`)).toEqual([]);
  });

  it('every name of the table is well formed, has a help text, and is used', () => {
    const literals = new Set(product.filter(({ path }) => !path.endsWith('metric-table.ts')).flatMap(textsOf));
    for (const [name, { type, help }] of Object.entries(METRICS)) {
      expect(name).toMatch(type === 'counter' ? /^[a-z][a-z_]*_total$/ : /^[a-z][a-z_]*(?<!_total)$/);
      expect(help.length, name).toBeGreaterThan(10);
      expect(literals.has(name), `${name} is used`).toBe(true);
    }
  });
});

/** Texts in a file: the name of a metric may be kept in a constant. */
function textsOf(file: (typeof files)[number]): string[] {
  const texts: string[] = [];
  findings(file, (node) => {
    if (ts.isStringLiteralLike(node)) texts.push(node.text);
    return null;
  });
  return texts;
}

/** Lines of a function without those of the functions inside it. */
function ownLines(node: ts.Node): number {
  let inner = 0;
  const visit = (child: ts.Node): void => {
    if (ts.isFunctionLike(child) && 'body' in child) inner += lineCount(child.getText()) - 1;
    else ts.forEachChild(child, visit);
  };
  ts.forEachChild(node, visit);
  return lineCount(node.getText()) - inner;
}
