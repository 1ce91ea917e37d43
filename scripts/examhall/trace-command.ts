import { auditTrace } from '#infra/mongo/operations/audited-reads.ts';
import { type Asked, readAsked, readTrace, type Trace } from '#infra/mongo/operations/trace.ts';
import { storesRings } from '#infra/redis/ask-once.ts';
import { lineView, PAGE_LINES, pageOf, readCursor, verdictText } from '#shared/operations/page.ts';
import type { TraceLine } from '#shared/operations/timeline.ts';
import { Refused, WrongUsage } from './exit-codes.ts';
import type { CliCommands, Operator } from './operator.ts';
import { atCursor, type Flags, limitOf, readingActFor } from './options.ts';
import { counted, nextPage, print, table } from './output.ts';

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
  if (asked === null) throw new WrongUsage('pass one of ID, student:ID, exam:ID and user:ID');
  const limit = limitOf(flags, PAGE_LINES);
  const after = flags.cursor === undefined ? null : atCursor(readCursor(flags.cursor));
  const { mongo, redisUrl } = operator;
  const act = readingActFor(operator, flags);
  const redis = (await storesRings(redisUrl)) ? 'up' : 'down';
  const found = await readTrace(mongo, asked, { now: act.now, redis });
  if (found === null) throw new Refused(`nothing is stored under ${asked.by} ${asked.value}`);
  await auditTrace(mongo, act, asked, found);
  const page = pageOf(found.lines, { after, limit });
  const { lines, nextCursor } = page;
  const { subject, verdicts, moreVerdicts, cut } = found;
  const value = { subject, verdicts, moreVerdicts, lines: lines.map(lineView), cut, nextCursor };
  return print(operator, flags, value, () => [
    ...summaryOf(asked, found),
    ...(lines.length === 0 ? [] : ['', ...tableOf(lines)]),
    ...nextPage(page),
    ...(cut.length === 0 ? [] : [`not all lines were read of: ${cut.join(', ')}`]),
  ]);
}

/** The first five lines: what was found, and up to four statements of what did not happen and why. */
function summaryOf({ value }: Asked, { subject, verdicts, moreVerdicts, lines }: Trace): string[] {
  const more = moreVerdicts === 0 ? '' : `; and ${counted(moreVerdicts, 'more statement')} below`;
  const head = `${subject} ${value}: ${counted(lines.length, 'line')}${more}`;
  if (verdicts.length === 0) return [`${head}; nothing is held up`];
  return [head, ...verdicts.map((verdict) => `${verdict.standing}: ${verdictText(verdict)}`)];
}

function tableOf(lines: readonly TraceLine[]): string[] {
  return table(lines, {
    at: ({ at }) => at,
    kind: ({ kind }) => kind,
    state: ({ state }) => state,
    what: ({ what, count }) => `${what ?? '-'}${count === 1 ? '' : ` x${count}`}`,
    tries: ({ attempt }) => attempt && `${attempt.n}/${attempt.max}`,
    next: ({ nextAt }) => nextAt,
    id: ({ id }) => id,
    reason: ({ reason }) => reason && `${reason.code}: ${reason.text}`,
  });
}
