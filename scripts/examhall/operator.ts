import type { Writable } from 'node:stream';
import type { AuthSettings } from '#infra/config/settings.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { SecretInput } from './read-secret.ts';

/** The person at the command line, and the resources that a command works with. */
export interface Operator {
  mongo: Mongo;
  /** MongoDB's time, in milliseconds. */
  now: () => number;
  /** Stored in the audit. */
  name: string;
  /** Prints one line of the result on stdout. */
  say: (line: string) => void;
  /** Prints a prompt or progress on stderr. */
  note: (line: string) => void;
  /** Prints `error: …` on stderr. */
  fail: (fault: string) => void;
  /** Standard input. Passwords are read from it, because arguments are visible in the list of processes. */
  input: SecretInput;
  settings: AuthSettings;
  /** Standard output, for documents that are written in parts. */
  output: Writable;
  /** Claims of a new command before it is dead. */
  commandAttempts: number;
}

export interface Flags {
  json?: boolean;
  yes?: boolean;
  queue?: string;
  cause?: string;
  reason?: string;
  limit?: string;
  /** File to write to. */
  out?: string;
  /** Consents to submit attempts that are in progress. */
  'end-open-attempts'?: boolean;
  'allow-admin'?: boolean;
  /** Consents to charge answers that no request returns any longer. */
  'charge-superseded'?: boolean;
}

/** Returns the exit code: 0 done, 1 nothing was done or something failed, 2 the arguments are invalid. */
export type CliCommand = (operator: Operator, words: string[], flags: Flags) => Promise<number>;

const MIN_REASON = 5;

/** Returns the reason that the audit stores. If it is missing or too short, prints an error and returns null. */
export function reasonOf(operator: Pick<Operator, 'fail'>, flags: { reason?: string }): string | null {
  const reason = flags.reason?.trim() ?? '';
  if (reason.length >= MIN_REASON) return reason;
  operator.fail(`--reason is required: at least ${MIN_REASON} characters, for the audit`);
  return null;
}

/** Returns the count and the noun, in the plural unless the count is 1. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
