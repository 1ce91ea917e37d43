import { Option } from 'commander';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { ATTEMPT_STATUSES } from '#shared/operations/exam-walk.ts';

/** Every option of the operator's commands. An option means the same in each command that takes it, except `--status` and `--subject`. */
const OPTIONS = {
  json: () => new Option('--json', 'print JSON instead of text'),
  yes: () => new Option('--yes', 'carry it out; without it, the command only says what it would do'),
  reason: () => new Option('--reason <text>', 'why, for the audit: at least 5 characters'),
  operator: () =>
    new Option('--operator <name>', 'your name, for the audit (default: $USER, otherwise the login name)'),
  limit: () => new Option('--limit <count>', 'at most this many, from 1 to 1000'),
  all: () => new Option('--all', 'all that the filter chooses, as a bulk act'),
  'per-second': () => new Option('--per-second <count>', 'pace of a bulk act, from 1 to 200 (default: 20)'),
  queue: () => new Option('--queue <queue>', 'only commands of this queue').choices(QUEUES),
  cause: () => new Option('--cause <text>', 'only commands with this cause, as `dead list` prints it'),
  subject: () => new Option('--subject <id>', 'only commands of this attempt, exam, job or account'),
  since: () => new Option('--since <time>', 'only commands that died since, such as 2h or 2026-11-23T08:00+07:00'),
  until: () => new Option('--until <time>', 'only commands that died before, such as 3d or 2026-11-23T08:00+07:00'),
  each: () => new Option('--each', 'list each letter with its id, in pages, in place of the groups'),
  dropped: () => new Option('--dropped', 'list dropped letters instead'),
  out: () => new Option('--out <file>', 'write to a new file that only you can read, instead of stdout'),
  from: () => new Option('--from <seq:hash>', 'begin at this row, as an earlier `audit verify` printed it'),
  address: () => new Option('--address <address>', 'only events of this IPv4 or IPv6 address'),
  shard: () => new Option('--shard', 'shard the collections of a sharded cluster instead'),
  status: () => new Option('--status', 'print the version of the schema and what is missing; change nothing'),
  'attempt-status': () => new Option('--status <status>', 'only attempts of this status').choices(ATTEMPT_STATUSES),
  act: () => new Option('--act <act>', 'only acts of this name, such as dead.replay'),
  by: () => new Option('--by <operator>', 'only acts of this operator, such as OPS_TOKEN or "ADMIN ID"'),
  'audit-subject': () => new Option('--subject <id>', 'only acts on this object, account or digest (`examhall hash`)'),
  cursor: () => new Option('--cursor <cursor>', 'the page after this cursor, as the page before printed it'),
  student: () => new Option('--student <id>', 'only attempts of this student'),
  'dry-run': () => new Option('--dry-run', 'print what would be done; change nothing'),
  watch: () => new Option('--watch [seconds]', 'print it again at this interval (default: 2) until Ctrl+C'),
  'allow-admin': () => new Option('--allow-admin', 'accept accounts with the role ADMIN'),
  'charge-superseded': () =>
    new Option('--charge-superseded', 'also charge answers that no request returns any longer'),
  'end-open-attempts': () => new Option('--end-open-attempts', 'submit attempts in progress as they are'),
} as const;

export type OptionName = keyof typeof OPTIONS;

/** Returns a new option of a command line. */
export function optionOf(name: OptionName): Option {
  return OPTIONS[name]();
}
