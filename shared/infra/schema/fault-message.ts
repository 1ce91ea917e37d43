import type { ErrorObject } from 'ajv';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { escapePointer } from '#shared/kernel/json.ts';

/**
 * Returns an ajv error in the form of a reply. The path of a missing field names that field. The message describes the wanted value
 * and never quotes the received one, because a body may contain answers and tokens. Requires ajv's `verbose`, for `x-message`.
 */
export function faultOf(error: ErrorObject, base: string): FaultDetail {
  const path = base + error.instancePath;
  if (error.keyword === 'required') {
    return { path: `${path}/${escapePointer(String(error.params.missingProperty))}`, message: 'is required' };
  }
  return { path, message: messageOf(error) };
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'a string',
  integer: 'an integer',
  number: 'a finite number',
  boolean: 'true or false',
  object: 'an object',
  array: 'an array',
  null: 'null',
};

function messageOf({ keyword, params, parentSchema }: ErrorObject): string {
  const own: unknown = parentSchema?.['x-message'];
  const limit = Number(params.limit);
  switch (keyword) {
    case 'type': {
      const types: string[] = Array.isArray(params.type) ? params.type : String(params.type).split(',');
      return `must be ${types.map((type) => TYPE_NAMES[type] ?? type).join(' or ')}`;
    }
    case 'enum':
      return `must be one of ${(params.allowedValues as unknown[]).map(String).join(', ')}`;
    case 'const':
      return `must be ${String(params.allowedValue)}`;
    case 'minLength':
      return limit === 1 ? 'must not be empty' : `must have at least ${limit} characters`;
    case 'maxLength':
      return `must have at most ${limit} characters`;
    case 'minItems':
      return limit === 1 ? 'must not be empty' : `must have at least ${limit} items`;
    case 'maxItems':
      return `must have at most ${limit} items`;
    case 'minimum':
      return `must be at least ${limit}`;
    case 'maximum':
      return `must be at most ${limit}`;
    case 'exclusiveMinimum':
      return `must be greater than ${limit}`;
    case 'exclusiveMaximum':
      return `must be less than ${limit}`;
    case 'format':
      return 'must be an RFC 3339 timestamp with a zone and a real date, such as 2026-09-01T08:00:00Z';
    default:
      return typeof own === 'string' ? own : 'must match the schema';
  }
}
