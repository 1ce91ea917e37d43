import type { Variable } from './variable.ts';
import { ATTEMPTS } from './variables/attempt.ts';
import { AUTH } from './variables/auth.ts';
import { CLASSIFIER } from './variables/classifier.ts';
import { LIMITS } from './variables/limits.ts';
import { NEIGHBOURS } from './variables/neighbours.ts';
import { NOTIFICATION } from './variables/notification.ts';
import { PROCESS } from './variables/process.ts';
import { STORES } from './variables/stores.ts';
import { TRUST } from './variables/trust.ts';
import { WORKERS } from './variables/workers.ts';

/**
 * Every environment variable that a process reads, in one table: validation, `docs/configuration.md` and `.env.example`
 * come from it, in this order. A variable set to the empty string counts as set.
 */
export const VARIABLES = {
  ...PROCESS,
  ...STORES,
  ...TRUST,
  ...NEIGHBOURS,
  ...ATTEMPTS,
  ...AUTH,
  ...NOTIFICATION,
  ...CLASSIFIER,
  ...WORKERS,
  ...LIMITS,
} as const satisfies Record<string, Variable>;

export type VariableName = keyof typeof VARIABLES;

/** The names of the variables of one kind. */
export type NamesOf<Kind extends Variable['kind']> = {
  [Name in VariableName]: (typeof VARIABLES)[Name]['kind'] extends Kind ? Name : never;
}[VariableName];
