import { auditTrace } from '#infra/mongo/operations/audited-reads.ts';
import { type Asked, readAsked, readTrace, type Trace } from '#infra/mongo/operations/trace.ts';
import { storesRings } from '#infra/redis/ask-once.ts';
import { lineView, PAGE_LINES, pageOf, readCursor, verdictText } from '#shared/operations/page.ts';
import type { TraceLine } from '#shared/operations/timeline.ts';
import { EXIT } from './exit-codes.ts';
import { type CliCommands, counted, type Flags, type Operator, readingActFor } from './operator.ts';
import { CURSOR_WANTED, iso, LIMIT_WANTED, limitOf, nextPage, print, refuse, table } from './output.ts';

/** The command that reads one timeline of an object or a person. */
export const TRACE_COMMANDS: CliCommands = {
  trace: {
    summary: 'print one timeline of an id, with the reasons for what did not happen',
    details: `<id> is any id: of an attempt, command, notice, event, delivery, notification, job, generation,
account, session or request, or the source event id of a producer. The first five lines are the summary.
The read is audited, once an hour for each subject.`,
    args: { '<id>': 'any id, or student:ID, exam:ID, user:ID' },
    options: ['limit', 'cursor', 'reason', 'operator', 'json', 'watch'],
    examples: ['trace 01a205a8-0eb0-7d7f-ac5e-c6d6312290b5', 'trace student:student-1', 'trace exam:toan-12 --json'],
    run: trace,
  },
};

async function trace(operator: Operator, [wanted = '']: string[], flags: Flags): Promise<number> {
  const asked = readAsked(wanted);
  if (asked === null) return refuse(operator, 'pass one of ID, student:ID, exam:ID and user:ID');
  const limit = limitOf(flags, PAGE_LINES);
  if (limit === null) return refuse(operator, LIMIT_WANTED);
  const after = flags.cursor === undefined ? null : readCursor(flags.cursor);
  if (flags.cursor !== undefined && after === null) return refuse(operator, CURSOR_WANTED);
  const { mongo, redisUrl, fail } = operator;
  const act = readingActFor(operator, flags);
  const redis = (await storesRings(redisUrl)) ? 'up' : 'down';
  const found = await readTrace(mongo, asked, { now: act.now, redis });
  if (found === null) {
    fail(`nothing is stored under ${asked.by} ${asked.value}`);
    return EXIT.failed;
  }
  await auditTrace(mongo, act, asked, found);
  const page = pageOf(found.lines, { after, limit });
  const { lines, nextCursor } = page;
  const { subject, verdicts, moreVerdicts, cut } = found;
  print(operator, flags, { subject, verdicts, moreVerdicts, lines: lines.map(lineView), cut, nextCursor }, () =>
    [...summaryOf(asked, found), ...tableOf(lines), ...nextPage(page), ...leftOut(found)].join('\n'),
  );
  return EXIT.done;
}

/** The first five lines: what was found, and up to four statements of what did not happen and why. */
function summaryOf({ value }: Asked, { subject, verdicts, moreVerdicts, lines }: Trace): string[] {
  const more = moreVerdicts === 0 ? '' : `; and ${counted(moreVerdicts, 'more statement')} below`;
  const head = `${subject} ${value}: ${counted(lines.length, 'line')}${more}`;
  if (verdicts.length === 0) return [`${head}; nothing is held up`];
  return [head, ...verdicts.map((verdict) => `${verdict.standing}: ${verdictText(verdict)}`)];
}

/** The timeline below an empty line; nothing if it has no line. */
function tableOf(lines: readonly TraceLine[]): string[] {
  if (lines.length === 0) return [];
  const rows = lines.map((line) => [
    iso(line.at),
    line.kind,
    line.state,
    `${line.what ?? '-'}${line.count === 1 ? '' : ` x${line.count}`}`,
    line.attempt === null ? '-' : `${line.attempt.n}/${line.attempt.max}`,
    iso(line.nextAt),
    line.id,
    line.reason === null ? '-' : `${line.reason.code}: ${line.reason.text}`,
  ]);
  return ['', table(['at', 'kind', 'state', 'what', 'tries', 'next', 'id', 'reason'], rows)];
}

function leftOut({ cut }: Trace): string[] {
  return cut.length === 0 ? [] : [`not all lines were read of: ${cut.join(', ')}`];
}
