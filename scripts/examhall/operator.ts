import type { Writable } from 'node:stream';
import type { AuthSettings } from '#infra/config/settings.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { AuditRow } from '#infra/mongo/operator-audit.ts';
import type { Progress } from '#scripts/start/progress.ts';
import type { Flags, OptionName } from './options.ts';
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
  /** Logs a row of the audit after its commit, so that a collector of logs stores it outside the database. */
  logAct: (row: AuditRow) => void;
  /** Ends the live streams of an account. Prints a note if Redis does not answer; the streams then end within ten minutes. */
  endStreams: (accountId: string) => Promise<void>;
  /** Standard input. Passwords are read from it, because arguments are visible in the list of processes. */
  input: SecretInput;
  settings: AuthSettings;
  /** Standard output, for documents that are written in parts. */
  output: Writable;
  /** Claims of a new command before it is dead. */
  commandAttempts: number;
  redisUrl: string;
  /** Aborted when the operator presses Ctrl+C in a command that follows something. */
  interrupted: AbortSignal;
  /** Opens a progress display on stderr. */
  openProgress: () => Progress;
}

/** Does the work of a command. Returns the exit code (`EXIT`). */
export type CommandWork = (operator: Operator, words: string[], flags: Flags) => Promise<number>;

/** One command: its work, and the texts of its `--help`. */
export interface CliCommand {
  /** One line in the list of all commands. */
  summary: string;
  /** Text that the operator needs before the first use, in lines of at most 100 characters. */
  details?: string;
  /** Words after the command's name, each with its meaning: `<id>` is required, `[id]` is optional, `[id...]` takes several. */
  args?: Readonly<Record<string, string>>;
  options?: readonly OptionName[];
  /** Command lines without the leading `examhall`. */
  examples: readonly string[];
  run: CommandWork;
}

/** Commands by name. A name of two words belongs to the group of its first word. */
export type CliCommands = Readonly<Record<string, CliCommand>>;
