import type { Writable } from 'node:stream';
import type { AuthSettings } from '#infra/config/settings.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type AuditRow, MIN_REASON, type OperatorAct } from '#infra/mongo/operator-audit.ts';
import type { Progress } from '#scripts/progress.ts';
import type { OptionName } from './options.ts';
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

/** The options of a command line, as the operator set them. A command declares in `options` which of them it takes. */
export interface Flags {
  json?: boolean;
  yes?: boolean;
  /** Distributes the collections over the shards of a cluster. */
  shard?: boolean;
  /** True: prints the version of the schema and changes nothing. Text: the status of the attempts to list. */
  status?: boolean | string;
  /** The student whose attempts are listed. */
  student?: string;
  dryRun?: boolean;
  queue?: string;
  cause?: string;
  /** The attempt, exam or job that dead letters concern; the object of the acts to list. */
  subject?: string;
  /** Times, as `readMoment` reads them. */
  since?: string;
  until?: string;
  /** Lists single letters in place of groups. */
  each?: boolean;
  /** Lists dropped letters instead. */
  dropped?: boolean;
  reason?: string;
  limit?: string;
  /** Acts on all letters of a filter. */
  all?: boolean;
  perSecond?: string;
  /** File to write to. */
  out?: string;
  /** Consents to submit attempts that are in progress. */
  endOpenAttempts?: boolean;
  /** The number and hash of an audit row, as `audit verify` printed it. */
  from?: string;
  /** The IP address whose security events are listed. */
  address?: string;
  allowAdmin?: boolean;
  /** Consents to charge answers that no request returns any longer. */
  chargeSuperseded?: boolean;
  /** The operator's name for the audit. */
  operator?: string;
  /** Name and operator of the acts to list. */
  act?: string;
  by?: string;
  /** The place after a page, as that page printed it. */
  cursor?: string;
  /** Seconds between two prints of a command that repeats until it is interrupted; true: the default interval. */
  watch?: string | true;
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

/** Returns the reason that the audit stores. If it is missing or too short, prints an error and returns null. */
export function reasonOf(operator: Pick<Operator, 'fail'>, flags: { reason?: string }): string | null {
  const reason = flags.reason?.trim() ?? '';
  if (reason.length >= MIN_REASON) return reason;
  operator.fail(`--reason is required: at least ${MIN_REASON} characters, for the audit`);
  return null;
}

/** Returns the act of this operator for the audit, at the present time. */
export function actFor(operator: Pick<Operator, 'name' | 'now' | 'logAct'>, reason: string): OperatorAct {
  return { operator: operator.name, reason, now: operator.now(), committed: operator.logAct };
}

/** Returns the act of reading a person's data. Its reason is optional, because a read changes nothing. */
export function readingActFor(
  operator: Pick<Operator, 'name' | 'now' | 'logAct'>,
  flags: { reason?: string },
): OperatorAct {
  return actFor(operator, flags.reason?.trim() || 'none given');
}

/** Returns the count and the noun, in the plural unless the count is 1. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
