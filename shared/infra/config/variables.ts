import { ATTEMPTS } from '#infra/config/variables/attempt.ts';
import { AUTH } from '#infra/config/variables/auth.ts';
import { CLASSIFIER } from '#infra/config/variables/classifier.ts';
import { NEIGHBOURS } from '#infra/config/variables/neighbours.ts';
import { NOTIFICATION } from '#infra/config/variables/notification.ts';
import { PROCESS, RETENTION, STORES, WORKERS } from '#infra/config/variables/process.ts';
import { TRUST } from '#infra/config/variables/trust.ts';
import type { Variable } from './variable.ts';
import { LIMITS } from './variables/process.ts';

/**
 * Every environment variable that a process reads. Validation, `docs/configuration.md` and `.env.example` are made from this table,
 * in its order. A variable set to the empty string counts as set.
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
  ...RETENTION,
  ...LIMITS,
} as const satisfies Record<string, Variable>;

export type VariableName = keyof typeof VARIABLES;

/** The names of the variables of one kind. */
export type NamesOf<Kind extends Variable['kind']> = {
  [Name in VariableName]: (typeof VARIABLES)[Name]['kind'] extends Kind ? Name : never;
}[VariableName];
