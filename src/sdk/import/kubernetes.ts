import { type Document, isMap, isSeq, LineCounter, type Node, parseAllDocuments } from 'yaml';
import type { JobForm, ScheduleForm } from '../../core/form/job-form.ts';
import { type Import, Importer, NOT_UTF8 } from './imported.ts';
import { Fault, jsonValue } from './json-value.ts';

export interface KubernetesOptions {
  /** Begins each job key. Default `kubernetes/`. */
  prefix?: string;
  /** Zone of the CronJobs that name none; their controller's zone is mostly UTC, which is the default. */
  zone?: string;
  /** Instant of the import, UTC ms; default now. */
  nowMs?: number;
}

/** Expansions of aliases in one document: beyond, a small file could become a large one. */
const ALIASES_MOST = 100;
const SPEC_FIELDS = ['schedule', 'timeZone', 'suspend', 'startingDeadlineSeconds', 'concurrencyPolicy', 'jobTemplate'];
/** Set by the cluster itself: they say nothing of what the user wants. */
const METADATA_OF_CLUSTER = [
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'managedFields',
  'selfLink',
  'ownerReferences',
];
const METADATA_KEPT = ['name', 'namespace', 'labels', 'annotations'];
/** Names of Kubernetes (RFC 1123): without a slash, so that no two jobs share a key. */
const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
const NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

type Plain = Record<string, unknown>;

/**
 * Reads CronJob manifests (batch/v1, batch/v1beta1): one or many YAML documents, and Lists. The trigger's payload is the
 * manifest without its schedule, with `spec.jobTemplate` whole. `suspend` becomes the state, `startingDeadlineSeconds` the
 * greatest age of a misfire. What has no meaning here stays in the payload and is noted. The key is
 * `PREFIX NAMESPACE/NAME`, which is unique in a Kubernetes cluster.
 */
export function importKubernetes(text: string, options: KubernetesOptions = {}): Import {
  const importer = new Importer(options.nowMs ?? Date.now());
  const lines = new LineCounter();
  const foreign = text.indexOf(NOT_UTF8.character);
  if (foreign >= 0) {
    importer.refuse(text.slice(0, foreign).split('\n').length, '', NOT_UTF8.reason);
    return importer.result;
  }
  let documents: Document[];
  try {
    documents = [
      ...parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, intAsBigInt: true, merge: true }),
    ] as Document[];
  } catch (error) {
    // Input nested so deep that the parser cannot follow.
    importer.refuse(1, '', `the YAML cannot be read: ${messageOf(error)}`);
    return importer.result;
  }
  const lineOf = (node: Node | null | undefined) => lines.linePos(node?.range?.[0] ?? 0).line;
  for (const document of documents) {
    const [fault] = document.errors;
    if (fault !== undefined) {
      importer.refuse(lines.linePos(fault.pos[0]).line, '', `the YAML cannot be read: ${fault.message}`);
      continue;
    }
    if (document.contents === null) continue;
    readManifest(importer, document, document.contents, options, lineOf);
  }
  return importer.result;
}

function readManifest(
  importer: Importer,
  document: Document,
  node: Node,
  options: KubernetesOptions,
  lineOf: (node: Node) => number,
): void {
  const line = lineOf(node);
  if (isMap(node) && /List$/.test(String(node.get('kind')))) {
    const items = node.get('items', true);
    if (!isSeq(items)) {
      importer.refuse(line, String(node.get('kind')), 'items must be a list', 'items');
      return;
    }
    for (const item of items.items as Node[]) readManifest(importer, document, item, options, lineOf);
    return;
  }
  let manifest: unknown;
  try {
    manifest = node.toJS(document, { maxAliasCount: ALIASES_MOST });
  } catch (error) {
    importer.refuse(line, '', `the YAML cannot be read: ${messageOf(error)}`);
    return;
  }
  // An empty document: files often begin or end with a separator.
  if (manifest === null) return;
  if (!isPlain(manifest)) {
    importer.refuse(line, '', 'a manifest is a map with apiVersion, kind, metadata and spec');
    return;
  }
  const { kind, apiVersion } = manifest;
  if (kind !== 'CronJob') {
    importer.note(line, `kind ${shown(kind)} is no CronJob and was passed over`);
    return;
  }
  if (apiVersion !== 'batch/v1' && apiVersion !== 'batch/v1beta1') {
    importer.refuse(line, 'CronJob', `apiVersion ${shown(apiVersion)} is not batch/v1`, 'apiVersion');
    return;
  }
  try {
    readCronJob(importer, line, jsonValue(manifest) as Plain, options);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    importer.refuse(line, titleOf(manifest), `${error.field} ${error.message}`, error.field);
  }
}

function titleOf({ metadata }: Plain): string {
  const { namespace = 'default', name } = isPlain(metadata) ? metadata : {};
  return `CronJob ${shown(namespace ?? 'default')}/${shown(name)}`;
}

function readCronJob(importer: Importer, line: number, manifest: Plain, options: KubernetesOptions): void {
  const metadata = isPlain(manifest['metadata']) ? manifest['metadata'] : {};
  const spec = isPlain(manifest['spec']) ? manifest['spec'] : {};
  const { name, namespace = 'default' } = metadata;
  if (typeof name !== 'string' || !NAME.test(name)) throw new Fault('metadata.name', 'is not a name of Kubernetes');
  if (namespace !== null && (typeof namespace !== 'string' || !NAMESPACE.test(namespace))) {
    throw new Fault('metadata.namespace', 'is not a namespace of Kubernetes');
  }
  if (!isPlain(spec['jobTemplate'])) throw new Fault('spec.jobTemplate', 'must be there: it is what runs');
  const form: JobForm = {
    key: `${options.prefix ?? 'kubernetes/'}${namespace ?? 'default'}/${name}`,
    schedule: scheduleOf(spec, options.zone),
    ...misfireOf(spec),
    payload: payloadOf(manifest, metadata, spec),
    labels: { source: 'kubernetes', ...concurrencyOf(spec) },
    ...stateOf(spec),
  };
  const text = titleOf(manifest);
  importer.take(line, text, form);
  noteLeftOvers(importer, line, text, manifest, metadata, spec);
}

/** `CRON_TZ=Europe/Madrid 0 6 * * *`, the older way to name a zone. */
const ZONE_PREFIX = /^(?:CRON_)?TZ=(\S+)\s+(.*)$/s;

function scheduleOf(spec: Plain, defaultZone: string | undefined): ScheduleForm {
  const { schedule, timeZone } = spec;
  if (typeof schedule !== 'string')
    throw new Fault('spec.schedule', 'must be a text (quote it: * begins a YAML alias)');
  if (timeZone !== undefined && timeZone !== null && typeof timeZone !== 'string')
    throw new Fault('spec.timeZone', 'must be a text');
  const [, prefixed, rest] = ZONE_PREFIX.exec(schedule.trim()) ?? [];
  if (prefixed !== undefined && typeof timeZone === 'string') {
    throw new Fault('spec.timeZone', 'and a zone in spec.schedule exclude each other');
  }
  const expression = rest ?? schedule.trim();
  const every = /^@every\s+(\S+)$/.exec(expression)?.[1];
  if (every !== undefined) return { kind: 'rate', everyMs: goDuration(every) };
  const zone = timeZone ?? prefixed ?? defaultZone;
  return { kind: 'cron', expression, ...(zone !== undefined && { zone }) };
}

const UNIT_MS: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

/** A duration as Go writes it: `1h30m`, `90s`, `1.5h`. */
function goDuration(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)];
  const ms = parts.reduce((sum, [, count, unit]) => sum + Number(count) * UNIT_MS[unit!]!, 0);
  if (parts.map(([part]) => part).join('') !== text || !Number.isInteger(ms) || ms <= 0) {
    throw new Fault('spec.schedule', `has no period that can be read: @every ${text}`);
  }
  return ms;
}

function misfireOf({ startingDeadlineSeconds: seconds }: Plain): Pick<JobForm, 'misfire'> {
  if (seconds === undefined || seconds === null) return {};
  if (typeof seconds !== 'number' || !Number.isSafeInteger(seconds) || seconds < 0) {
    throw new Fault('spec.startingDeadlineSeconds', 'must be a whole number of at least 0');
  }
  return { misfire: seconds === 0 ? { mode: 'skip' } : { mode: 'once', maxAgeMs: seconds * 1_000 } };
}

/** A manifest that does not say leaves the job as it is, so that an import does not resume what somebody paused. */
function stateOf({ suspend }: Plain): Pick<JobForm, 'state'> {
  if (suspend === undefined || suspend === null) return {};
  if (typeof suspend !== 'boolean') throw new Fault('spec.suspend', 'must be true or false');
  return { state: suspend ? 'paused' : 'enabled' };
}

function concurrencyOf({ concurrencyPolicy: policy }: Plain): Record<string, string> {
  if (policy === undefined || policy === null) return {};
  if (policy === 'Allow' || policy === 'Forbid' || policy === 'Replace') {
    return { 'kubernetes/concurrency-policy': policy };
  }
  throw new Fault('spec.concurrencyPolicy', 'must be Allow, Forbid or Replace');
}

function payloadOf(manifest: Plain, metadata: Plain, spec: Plain): Plain {
  const { schedule, timeZone, suspend, startingDeadlineSeconds, ...kept } = spec;
  const { apiVersion, kind } = manifest;
  const about = METADATA_KEPT.filter((field) => metadata[field] !== undefined).map((field) => [field, metadata[field]]);
  return { apiVersion, kind, metadata: Object.fromEntries(about), spec: kept };
}

function noteLeftOvers(
  importer: Importer,
  line: number,
  text: string,
  manifest: Plain,
  metadata: Plain,
  spec: Plain,
): void {
  if (spec['concurrencyPolicy'] === 'Forbid' || spec['concurrencyPolicy'] === 'Replace') {
    const policy = String(spec['concurrencyPolicy']);
    importer.note(line, `${text}: spec.concurrencyPolicy ${policy} is kept as a label; whoever runs the job keeps it`);
  }
  for (const field of Object.keys(spec).filter((one) => !SPEC_FIELDS.includes(one))) {
    importer.note(line, `${text}: spec.${field} has no meaning here and is kept in the payload`);
  }
  const known = [...METADATA_KEPT, ...METADATA_OF_CLUSTER];
  for (const field of Object.keys(metadata).filter((one) => !known.includes(one))) {
    importer.note(line, `${text}: metadata.${field} is left out`);
  }
  const outer = ['apiVersion', 'kind', 'metadata', 'spec', 'status'];
  for (const field of Object.keys(manifest).filter((one) => !outer.includes(one))) {
    importer.note(line, `${text}: ${field} is left out`);
  }
}

function isPlain(value: unknown): value is Plain {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string {
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'that is a list' : 'that is a map';
  return value === undefined || value === null ? 'that is missing' : String(value).slice(0, 80);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
