import t from 'tap';
import { answerSheet } from '#scripts/sandbox/school/answer-sheet.ts';
import { MISPRINT, mathsPaper, misprinted } from '#scripts/sandbox/school/paper.ts';
import { schoolYear } from '#scripts/sandbox/school/school.ts';
import { answerKeyOf } from '#shared/attempt/attempt.ts';
import type { Paper } from '#shared/attempt/question.ts';
import { statisticQuestions } from '#shared/exam-room/graded-row.ts';
import { StatisticTable } from '#shared/exam-room/statistics.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import type { Answer, Regrade, RegradeRow } from '../../../clients/typescript/src/index.ts';
import { parseCsv } from './results-file.ts';
import type { DemoDeps, Sitting } from './sit-exam.ts';
import { copiedPaper, gradeSitting, statisticsFaults, verifyRegrade } from './verify.ts';

const questions = mathsPaper();
const printed = copiedPaper(misprinted(questions));
const right = copiedPaper(questions);

/** Returns what the students of a school leave after the exam. */
function sittingsOf(count: number, seed: string): Sitting[] {
  return schoolYear(count, seed).map((student) => {
    const answers = new Map<string, Answer>();
    for (const step of answerSheet(student, questions, seed, MISPRINT)) {
      if (step.kind === 'save') answers.set(step.questionId, step.answer);
    }
    return {
      student,
      attemptId: `attempt-${student.id}`,
      answers,
      versions: new Map<string, number>(),
      savesAcknowledged: 0,
      eventsAcknowledged: 0,
      timesAway: 0,
      actsInDoubt: 0,
      essayPoints: 0.5,
      rounds: 1,
      isVoid: false,
      actsLogged: 0,
      regradeId: null,
    };
  });
}

/** Returns the statistics that the service counts for these sittings. */
function statisticsOf(sittings: readonly Sitting[], paper: Paper) {
  const table = new StatisticTable();
  const asked = statisticQuestions(paper);
  for (const sitting of sittings) {
    const { answers, totals, maxScore } = gradeSitting(paper, sitting);
    const outcomes = asked.map((_, index) => {
      const answer = answers[answerKeyOf(index)];
      return { score: answer?.score ?? 0, isAnswered: answer !== undefined, chosen: [] };
    });
    const { attemptId } = sitting;
    table.add({ attemptId, totalScore: totals.totalScore, maxScore, questions: asked, outcomes });
  }
  return atOnce(table.result());
}

t.test(
  'statistics of the wrong key are told from those of the right one, and a voided attempt is missed',
  async (t) => {
    const sittings = sittingsOf(40, '2025');
    t.strictSame(statisticsFaults(statisticsOf(sittings, printed), sittings, printed), []);
    t.strictSame(statisticsFaults(statisticsOf(sittings, right), sittings, right), []);
    const faults = statisticsFaults(statisticsOf(sittings, printed), sittings, right);
    t.match(
      faults.join('\n'),
      /discrimination of toan-2025-c05 .*\ntoan-2025-c05 has the flags NEGATIVE_DISCRIMINATION/,
    );
    const voided = sittings.map((sitting, index) => (index === 7 ? { ...sitting, isVoid: true } : sitting));
    t.match(statisticsFaults(statisticsOf(sittings, right), voided, right), [/attempts is 40, expected 39/]);
    t.strictSame(statisticsFaults(statisticsOf(sittings.slice(0, 9), right), sittings.slice(0, 9), right), []);
  },
);

t.test('the wrong key has a negative discrimination in a class of each seed', async (t) => {
  for (let seed = 0; seed < 50; seed += 1) {
    const { questions: shown } = statisticsOf(sittingsOf(39, String(seed)), printed);
    const misprint = shown.find(({ questionId }) => questionId === MISPRINT.questionId);
    t.ok((misprint?.discrimination ?? 0) < -0.15, `seed ${seed}: ${misprint?.discrimination}`);
  }
});

t.test('a preview with a wrong count or a wrong row is found', async (t) => {
  const sittings = sittingsOf(40, '2025');
  const totals = (sitting: Sitting) => ({
    before: gradeSitting(printed, sitting).totals.totalScore,
    after: gradeSitting(right, sitting).totals.totalScore,
  });
  const rows = sittings.flatMap((sitting): RegradeRow[] => {
    const { before, after } = totals(sitting);
    if (before === after) return [];
    const score = (totalScore: number) => ({ totalScore, maxScore: 10 });
    const { attemptId, student } = sitting;
    const shown = { before: score(before), after: score(after), questions: [] };
    return [{ attemptId, studentId: student.id, studentInfo: null, ...shown }];
  });
  const up = rows.filter(({ before, after }) => (after.totalScore ?? 0) > (before.totalScore ?? 0)).length;
  const preview = { attempts: 40, changed: rows.length, up, down: rows.length - up } as Regrade;
  const faultsOf = (shown: { preview: Regrade; rows: readonly RegradeRow[] }) => {
    const faults: string[] = [];
    const deps = { complain: (fault: string) => void faults.push(fault) } as DemoDeps;
    verifyRegrade(deps, shown, sittings, totals);
    return faults;
  };
  t.ok(up > 0 && up < rows.length, 'totals rise and fall');
  t.strictSame(faultsOf({ preview, rows }), []);
  t.match(faultsOf({ preview: { ...preview, up: up + 1 }, rows }), [/up is/]);
  t.match(faultsOf({ preview, rows: rows.slice(1) }), [/rows, expected/, /before is/, /after is/]);
});

t.test('a file of results is read as a spreadsheet reads it', async (t) => {
  const text = 'a,"b ""c"", d",\r\n,"two\nlines\r\n",3\r\n';
  t.strictSame(parseCsv(text), [
    ['a', 'b "c", d', ''],
    ['', 'two\nlines\r\n', '3'],
  ]);
});
