import { createHash } from 'node:crypto';
import type { ModelTask } from '#shared/classifier/model-task.ts';
import { membersOf } from '#shared/kernel/json-object.ts';
import { sample } from './sample.ts';

/**
 * An answer as the mock provider gives it: always the same for the same task, and one that the task's schema admits,
 * whatever it is. It speaks of what the data speaks of: an array whose items name a question or a criterion gets one
 * item for each that the data (or an `enum`) names, `questions` gets as many items as the data's `count`, scores stay
 * within their `maxScore` and a score beside scored parts is their sum, an answer key is the first option.
 */
export function mockAnswer({ kind, data, schema }: Pick<ModelTask, 'kind' | 'data' | 'schema'>): unknown {
  const seed = hexDigest(`${kind}\n${JSON.stringify(data) ?? 'null'}`);
  const chance = (path: string) => Number.parseInt(hexDigest(`${seed}${path}`).slice(0, 12), 16) / 2 ** 48;
  const subject = membersOf(data);
  return sample({ root: schema, data: subject, chance }, schema, { path: '', name: '', made: {}, subject });
}

function hexDigest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
