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
