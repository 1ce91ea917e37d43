import type { AttemptDeps } from '#api/attempt/deps.ts';
import type { Call, RawReply, Reply } from '#api/route.ts';
import { type RegradeRow, regrades } from '#infra/mongo/attempt/collections.ts';
import { appliedRegrades } from '#infra/mongo/attempt/corrections.ts';
import { papersOfExam } from '#infra/mongo/exam-room/papers-of-exam.ts';
import { mayMove } from '#infra/mongo/exam-room/regraded-attempts.ts';
import { allLines, findRegrade, linesOf, listRegrades } from '#infra/mongo/exam-room/regrades.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { type Correction, correctedPaper } from '#shared/attempt/correction.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import { type CsvFormat, csvLine } from '#shared/exam-room/csv.ts';
import { type ExamActKind, examActId, examActOrder, examActRef } from '#shared/exam-room/exam-act.ts';
import { InfoColumns } from '#shared/exam-room/info-columns.ts';
import { changeFaults, copyChanges, openPaperCheck } from '#shared/exam-room/regrade.ts';
import { regradeCells, regradeHeader, regradeLayout } from '#shared/exam-room/regrade-csv.ts';
import { lineForReply, regradeForReply } from '#shared/exam-room/regrade-view.ts';
import type { ReasonedRequest, RegradeRequest } from '#shared/generated/exam-room.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { derivedId } from '#shared/kernel/ids.ts';
import { DAY } from '#shared/kernel/time.ts';
import { endOf, keyOf } from './acts.ts';
import { csvReply } from './downloads.ts';
import { examOf } from './examiner.ts';

/** Time for which a preview can be read and applied. */
const PREVIEW_MS = 30 * DAY;

/** Previews a regrade: who changes, and by how much. Nothing is changed before it is applied. */
export async function createRegrade(deps: AttemptDeps, call: Call<RegradeRequest>): Promise<Reply | Rejection> {
  const found = await examOf(deps, call);
  if (isRejection(found)) return found;
  const { examId, by } = found;
  const id = examActId('REGRADE', by, examId, keyOf(call.identity));
  const changes = copyChanges(call.body.changes);
  // A repeat ends as the first request did, also if the exam has other papers by now.
  const refused = (await findRegrade(deps.mongo, { _id: id, examId })) ? null : await refusalOf(deps, found, changes);
  if (refused !== null) return refused;

  const now = deps.now();
  const row: RegradeRow = {
    _id: id,
    examId,
    state: 'PREVIEWING',
    changes,
    by,
    reason: call.body.reason,
    createdAt: new Date(now),
    appliedAt: null,
    isApplied: false,
    ...{ attempts: 0, changed: 0, up: 0, down: 0 },
    expiresAt: new Date(now + PREVIEW_MS),
  };
  const order = examActOrder(id, examId, {
    kind: 'REGRADE',
    examId,
    regradeId: id,
    by,
    statedReason: call.body.reason,
  });
  const command = newCommand({ ...order, id, maxAttempts: deps.commandAttempts, now });
  await endOf(deps, call, command, async (session) => void (await regrades(deps.mongo).insertOne(row, { session })));
  const stored = await findRegrade(deps.mongo, row);
  return stored === null
    ? { rejected: 'REGRADE_NOT_FOUND' }
    : { status: 201, data: { regrade: regradeForReply(stored) } };
}

/** Returns why changes do not fit the exam, or null. They are held against each of its papers, as corrected so far. */
async function refusalOf(
  deps: AttemptDeps,
  { examId, by }: { examId: string; by: Examiner },
  changes: readonly Correction[],
): Promise<Rejection | null> {
  const details = changeFaults(changes);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const [ids, applied] = await Promise.all([papersOfExam(deps.mongo, examId, by), appliedRegrades(deps.mongo, examId)]);
  const earlier = applied.flatMap((one) => one.changes);
  const check = openPaperCheck(changes);
  for (const id of ids) check.see(correctedPaper(await deps.papers.find(id), earlier));
  return check.end();
}

type Move = Extract<ExamActKind, 'REGRADE_APPLY' | 'REGRADE_DISCARD'>;

/** Applies a preview. An applied one stays as it is. */
export function applyRegrade(deps: AttemptDeps, call: Call<ReasonedRequest>): Promise<Reply | Rejection> {
  return move(deps, call, 'REGRADE_APPLY', ['PREVIEW', 'APPLYING']);
}

/** Discards a preview. */
export function discardRegrade(deps: AttemptDeps, call: Call<ReasonedRequest>): Promise<Reply | Rejection> {
  return move(deps, call, 'REGRADE_DISCARD', ['PREVIEW']);
}

/** Posts the act that moves a regrade which is in one of the states `from`, and waits for its worker. */
async function move(
  deps: AttemptDeps,
  call: Call<ReasonedRequest>,
  kind: Move,
  from: readonly RegradeRow['state'][],
): Promise<Reply | Rejection> {
  const found = await regradeOf(deps, call);
  if (isRejection(found)) return found;
  const { row, by } = found;
  const id = moveId(kind, row, by, call);
  const earlier = await readCommand(deps.mongo, examActRef(id));
  // The repeat of an act ends as the act did, also if attempts of other examiners have started since.
  const isRepeat = earlier !== null && earlier.body.by.id === by.id;
  if (!isRepeat && !(await mayMove(deps.mongo, row, by))) return { rejected: 'FORBIDDEN' };
  if (kind === 'REGRADE_APPLY' && row.state === 'APPLIED')
    return { status: 200, data: { regrade: regradeForReply(row) } };
  // The repeat of an act that was posted gets the end of the act. The state that it has left would refuse it.
  if (earlier === null && !from.includes(row.state)) return { rejected: 'REGRADE_STATE_CONFLICT' };
  const order = examActOrder(id, row.examId, {
    kind,
    examId: row.examId,
    regradeId: row._id,
    by,
    statedReason: call.body.reason,
  });
  const end = await endOf(deps, call, newCommand({ ...order, id, maxAttempts: deps.commandAttempts, now: deps.now() }));
  if (end.kind === 'rejected') return end.rejection;
  if (end.kind === 'late') return end.reply;
  const moved = await findRegrade(deps.mongo, row);
  return moved === null
    ? { rejected: 'REGRADE_NOT_FOUND' }
    : { status: 200, data: { regrade: regradeForReply(moved) } };
}

/**
 * Returns the id of an act that moves a regrade. All requests to apply it are one act, whichever examiner sends them. Each key makes an act
 * that discards it, and the worker lets one of them do so.
 */
function moveId(kind: Move, { _id }: RegradeRow, by: Examiner, { identity }: Pick<Call, 'identity'>): string {
  return kind === 'REGRADE_APPLY' ? derivedId(_id, `act:${kind}`) : examActId(kind, by, _id, keyOf(identity));
}

/** Returns the regrade of the path, with the caller. */
async function regradeOf(
  deps: AttemptDeps,
  call: Pick<Call, 'params' | 'identity'>,
): Promise<{ row: RegradeRow; by: Examiner } | Rejection> {
  const found = await examOf(deps, call);
  if (isRejection(found)) return found;
  const row = await findRegrade(deps.mongo, { _id: call.params.regradeId ?? '', examId: found.examId });
  return row === null ? { rejected: 'REGRADE_NOT_FOUND' } : { row, by: found.by };
}

/** Returns one regrade. */
export async function readRegrade(deps: AttemptDeps, call: Call): Promise<Reply | Rejection> {
  const found = await regradeOf(deps, call);
  return isRejection(found) ? found : { status: 200, data: { regrade: regradeForReply(found.row) } };
}

/** Returns a page of the regrades of an exam, newest first. */
export async function readRegrades(
  deps: AttemptDeps,
  call: Call<unknown, { before?: string; limit?: number }>,
): Promise<Reply | Rejection> {
  const found = await examOf(deps, call);
  if (isRejection(found)) return found;
  const { examId } = found;
  const { before, limit = 20 } = call.query;
  const after = before === undefined ? null : await findRegrade(deps.mongo, { _id: before, examId });
  if (before !== undefined && after === null) return { rejected: 'REGRADE_NOT_FOUND' };
  const rows = await listRegrades(deps.mongo, examId, { after, limit });
  const page = rows.slice(0, limit);
  const next = rows.length > limit ? (page.at(-1)?._id ?? null) : null;
  return { status: 200, data: { items: page.map(regradeForReply), next } };
}

/** Sends what a regrade changes as a file for a spreadsheet. It is read twice: for the columns, and for the lines. */
export async function downloadRegradeRows(
  deps: AttemptDeps,
  call: Call<never, Partial<CsvFormat>>,
): Promise<RawReply | Rejection> {
  const found = await regradeOf(deps, call);
  if (isRejection(found)) return found;
  const { row, by } = found;
  const { separator = ',', decimal = '.' } = call.query;
  const lines = async function* () {
    const info = new InfoColumns();
    for await (const { studentInfo } of allLines(deps.mongo, row._id, by)) info.add(studentInfo);
    const layout = regradeLayout(info.layout(), row.changes);
    yield csvLine(regradeHeader(layout), { separator, decimal });
    for await (const line of allLines(deps.mongo, row._id, by)) {
      yield csvLine(regradeCells(line, layout), { separator, decimal });
    }
  };
  return csvReply(call, `regrade-${row._id}`, lines);
}

/** Returns a page of what a regrade changes, by attempts. */
export async function readRegradeRows(
  deps: AttemptDeps,
  call: Call<unknown, { after?: string; limit?: number }>,
): Promise<Reply | Rejection> {
  const found = await regradeOf(deps, call);
  if (isRejection(found)) return found;
  const { after = null, limit = 100 } = call.query;
  const rows = await linesOf(deps.mongo, found.row._id, found.by, { after, limit });
  const page = rows.slice(0, limit);
  const next = rows.length > limit ? (page.at(-1)?.attemptId ?? null) : null;
  return { status: 200, data: { items: page.map(lineForReply), next } };
}
