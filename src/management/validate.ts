import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { CarillonError, carillonError } from '../core/errors.ts';
import { READ_ONLY_FIELDS } from '../core/form/job-schema.ts';
import { pathText } from './json-source.ts';

/** One fault of a request; a request with several is refused with the list of all. */
export interface Fault {
  field: string;
  detail: string;
}

/** An error of the table with the list of all faults that were found. */
export class FaultsError extends CarillonError {
  readonly faults: readonly Fault[];

  constructor(faults: readonly Fault[]) {
    const [first, ...others] = faults;
    const detail = `${first!.field}: ${first!.detail}${others.length === 0 ? '' : `; and ${others.length} more`}`;
    super('request-invalid', detail, { field: first!.field });
    this.faults = faults;
  }
}

/** Types are taken as they are: a number in quotes is no number, and no member is dropped or filled in. */
const ajv = new Ajv({ allErrors: true, discriminator: true, strict: true, strictTypes: false, strictRequired: false });

export type Check = (value: unknown, at?: readonly (string | number)[]) => void;

/** A check by a JSON schema; it throws `request-invalid` with every unknown field and every wrong value. */
export function checkBy(schema: object): Check {
  const validate: ValidateFunction = ajv.compile(schema);
  return (value, at = []) => {
    if (validate(value)) return;
    const faults = validate.errors?.filter(isOwnFault).map((error) => faultOf(error, at)) ?? [];
    if (faults.length === 0)
      throw carillonError('request-invalid', 'the value has another form', { field: pathText(at) });
    throw new FaultsError(distinct(faults));
  };
}

/** Errors of `anyOf` and the like only say that one of the errors beside them holds; null is the other branch of each. */
function isOwnFault({ keyword, params }: ErrorObject): boolean {
  return keyword !== 'anyOf' && keyword !== 'propertyNames' && params['type'] !== 'null';
}

/** Two branches of a choice may say the same. */
function distinct(faults: Fault[]): Fault[] {
  return [...new Map(faults.map((fault) => [`${fault.field} ${fault.detail}`, fault])).values()];
}

function faultOf(error: ErrorObject, at: readonly (string | number)[]): Fault {
  const { keyword, params, instancePath } = error;
  const path = [...at, ...segments(instancePath)];
  if (keyword === 'additionalProperties') {
    const name = String(params['additionalProperty']);
    const readOnly = path.length === at.length && READ_ONLY_FIELDS.some((field) => field === name);
    const detail = readOnly ? 'is read-only: it is answered and cannot be set' : 'is not a known field';
    return { field: pathText([...path, name]), detail };
  }
  if (keyword === 'required') {
    return { field: pathText([...path, String(params['missingProperty'])]), detail: 'is missing' };
  }
  if (keyword === 'discriminator') {
    return { field: pathText([...path, String(params['tag'])]), detail: 'must be one of the known kinds' };
  }
  if (error.propertyName !== undefined) {
    return { field: pathText([...path, error.propertyName]), detail: `the name ${error.message}` };
  }
  const choices = keyword === 'enum' ? `: ${(params['allowedValues'] as unknown[]).join(', ')}` : '';
  return { field: pathText(path), detail: `${error.message ?? 'is not valid'}${choices}` };
}

function segments(pointer: string): (string | number)[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part.replaceAll('~1', '/').replaceAll('~0', '~')));
}
