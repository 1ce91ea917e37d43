import type { AuthSettings } from '#infra/config/settings.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { SecretInput } from './read-secret.ts';

/** Who works, and with what. */
export interface Operator {
  mongo: Mongo;
  now: () => number;
  name: string;
  say: (line: string) => void;
  /** Where what must not be seen in a list of processes is read from. */
  input: SecretInput;
  settings: AuthSettings;
}

export interface Flags {
  json?: boolean;
  yes?: boolean;
  queue?: string;
  cause?: string;
  reason?: string;
  limit?: string;
}

/** Gives the exit code: 0 done, 1 nothing was done or something failed, 2 the words of the call are off. */
export type CliCommand = (operator: Operator, words: string[], flags: Flags) => Promise<number>;

const MIN_REASON = 5;

/** What the audit will say of why; null when it was not given, and then the operator has been told. */
export function reasonOf(operator: Pick<Operator, 'say'>, flags: { reason?: string }): string | null {
  const reason = flags.reason?.trim() ?? '';
  if (reason.length >= MIN_REASON) return reason;
  operator.say(`--reason of at least ${MIN_REASON} characters is required: it goes into the audit`);
  return null;
}
