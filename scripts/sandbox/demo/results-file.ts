import { TEACHER } from '#scripts/sandbox/school/paper.ts';
import type { Answer } from '../../../clients/typescript/src/index.ts';
import type { ProctorsDay } from './proctor.ts';
import { type DemoDeps, differences, THE_TEACHER } from './sit-exam.ts';
import type { Verified } from './verify.ts';

const BYTE_ORDER_MARK = '\uFEFF';
/** Lines of the file that the report shows, and the characters of each. */
const SHOWN_LINES = 3;
const SHOWN_CHARACTERS = 90;

/** Downloads the results as a teacher does, and compares each number with the detail of its attempt. Returns lines of the report. */
export async function downloadResults(
  { gateway, examId, complain }: DemoDeps,
  day: ProctorsDay,
  verified: readonly Verified[],
): Promise<string[]> {
  const file = await gateway.client('results.csv').downloadResults({ examId, as: THE_TEACHER });
  day.acts.push({ action: 'exam.results-downloaded', subject: examId, reason: 'results downloaded' });
  if (!file.startsWith(BYTE_ORDER_MARK)) complain('results.csv has no byte order mark');
  const [header = [], ...lines] = parseCsv(file.slice(BYTE_ORDER_MARK.length));
  if (lines.length !== verified.length) complain(`results.csv has ${lines.length} lines, expected ${verified.length}`);
  const byStudent = new Map(lines.map((line) => [line[0], line]));
  for (const found of verified) {
    const { id } = found.sitting.student;
    const line = byStudent.get(id) ?? [];
    const shown = Object.fromEntries(header.map((name, at) => [name, line[at]]));
    differences(`in results.csv, ${id}'s`, shown, cellsOf(found)).forEach(complain);
  }
  const size = `${lines.length} lines of ${header.length} columns, ${Buffer.byteLength(file)} bytes`;
  return [
    `  results.csv     ${size}; each cell was compared with its attempt`,
    ...file
      .slice(BYTE_ORDER_MARK.length)
      .split('\r\n', Math.min(SHOWN_LINES, lines.length + 1))
      .map((line) => `                  ${line.slice(0, SHOWN_CHARACTERS)}…`),
  ];
}

/** Returns the cells of an attempt, by their columns, as its detail has them. */
function cellsOf({ sitting, attempt, scorePercent }: Verified): Record<string, string> {
  const cells: Record<string, string | number | boolean | null> = {
    studentId: attempt.studentId,
    'studentInfo.fullName': sitting.student.fullName,
    attemptNumber: attempt.attemptNumber,
    status: attempt.status,
    startedAt: attempt.startedAt,
    submittedAt: attempt.submittedAt,
    submittedBy: attempt.submittedBy,
    durationSeconds: attempt.durationSeconds,
    totalScore: attempt.totalScore,
    maxScore: attempt.maxScore,
    scorePercent,
    correctCount: attempt.correctCount,
    wrongCount: attempt.wrongCount,
    pendingManualCount: attempt.pendingManualCount,
    awayCount: sitting.timesAway,
    voided: sitting.isVoid,
  };
  const answers = new Map(attempt.answers.map((answer) => [answer.questionId, answer]));
  for (const [index, { questionId }] of attempt.questions.entries()) {
    const answer = answers.get(questionId);
    cells[`${index}:${questionId}:score`] = answer === undefined ? 0 : answer.score;
    cells[`${index}:${questionId}:answer`] = answer === undefined ? null : answerText(answer.answer);
  }
  return Object.fromEntries(Object.entries(cells).map(([name, value]) => [name, value === null ? '' : `${value}`]));
}

/** Returns an answer as its cell has it: with an apostrophe if a spreadsheet would run it. */
function answerText({ selectedOptionIds, statementAnswers, textAnswer }: Answer): string {
  const judged = (statementAnswers ?? []).filter(({ value }) => value !== null);
  const text =
    selectedOptionIds?.join('|') ??
    textAnswer ??
    judged.map(({ statementId, value }) => `${statementId}=${value}`).join('|');
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
}

/** Returns the lines of a CSV file (RFC 4180) with their cells. */
export function parseCsv(text: string): string[][] {
  const lines: string[][] = [];
  let cells: string[] = [];
  for (const [, quoted, plain = '', end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
    cells.push(quoted?.replaceAll('""', '"') ?? plain);
    if (end === ',') continue;
    lines.push(cells);
    cells = [];
  }
  return lines;
}

/** Checks that the audit has each act of the teacher once, with its reason, and no other act on this exam. Returns a line of the report. */
export async function verifyAudit({ gateway, complain }: DemoDeps, { acts }: ProctorsDay): Promise<string> {
  const admin = { id: 'qt-01', role: 'ADMIN' } as const;
  for (const [subject, wanted] of Map.groupBy(acts, (act) => act.subject)) {
    const query = { subject, operator: TEACHER };
    const { rows } = await gateway.client('audit').listAudit({ as: admin, query });
    const shown = rows.map(({ action, reason }) => `${action}: ${reason}`).sort();
    const expected = wanted.map(({ action, reason }) => `${action}: ${reason}`).sort();
    differences(`the audit of ${subject}:`, { acts: shown }, { acts: expected }).forEach(complain);
  }
  return `  audit           ${acts.length} acts of the teacher, each once, with its reason`;
}
