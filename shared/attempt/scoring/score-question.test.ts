import t, { type Test } from 'tap';
import type { AnswerContent } from '#shared/attempt/attempt.ts';
import type { Question, ScoringRule } from '#shared/attempt/question.ts';
import { sampleOptions, sampleQuestion } from '#testing/stored/sample-attempt.ts';
import { gradeByHand, scoreQuestion } from './score-question.ts';

type Vector = [answer: AnswerContent | undefined, score: number | null, isCorrect: boolean | null, why?: string];

function check(t: Test, question: Question, vectors: Vector[]) {
  for (const [answer, score, isCorrect, why] of vectors) {
    t.strictSame(scoreQuestion(question, answer), { isCorrect, score }, why ?? JSON.stringify(answer));
  }
}

const picked = (...selected: string[]): AnswerContent => ({ selected });
const typed = (text: string): AnswerContent => ({ text });

/** Returns statements: `judge('TF-?')` answers a with true and b with false, leaves c blank and omits d. */
function judge(marks: string): AnswerContent {
  const statements = [...marks].flatMap((mark, index) => {
    if (mark === '?') return [];
    return [{ statementId: 'abcdefgh'.charAt(index), value: mark === '-' ? null : mark === 'T' }];
  });
  return { statements };
}

function choice(score: number, scoringRule: ScoringRule, correctOptionIds: string[]): Question {
  const options = sampleOptions('a', 'b', 'c', 'd');
  return sampleQuestion({ type: 'MULTIPLE_CHOICE', score, scoringRule, options, answerKey: { correctOptionIds } });
}

/** Returns a true/false group whose statements are all true. */
function group(score: number, scoringRule: ScoringRule, statementCount = 4): Question {
  const ids = [...'abcdefgh'].slice(0, statementCount);
  const statements = ids.map((statementId) => ({ statementId, value: true }));
  const options = sampleOptions(...ids);
  return sampleQuestion({ type: 'TRUE_FALSE_GROUP', score, scoringRule, options, answerKey: { statements } });
}

function numeric(scoringRule: ScoringRule, ...numericAnswers: { value: number; tolerance?: number }[]): Question {
  return sampleQuestion({ type: 'NUMERIC', score: 2, scoringRule, options: [], answerKey: { numericAnswers } });
}

t.test('EXACT: an answer is correct only if the selected set equals the key', async (t) => {
  check(t, sampleQuestion({ score: 0.25 }), [
    [picked('a'), 0.25, true],
    [picked('a', 'a'), 0.25, true, 'a selection counts once'],
    [picked('b'), 0, false],
    [picked(), 0, false],
    [undefined, 0, false],
  ]);
  check(t, choice(2, { mode: 'EXACT' }, ['a', 'c']), [
    [picked('c', 'a'), 2, true, 'in any order'],
    [picked('a'), 0, false],
    [picked('a', 'c', 'd'), 0, false],
  ]);
  check(t, group(1, { mode: 'EXACT' }), [
    [judge('TTTT'), 1, true],
    [judge('TTTF'), 0, false],
    [judge('TTT-'), 0, false],
  ]);
});

t.test('PARTIAL: options earn their share of the key, minus penalties', async (t) => {
  check(t, choice(3, { mode: 'PARTIAL', incorrectPenalty: 0.5 }, ['a', 'b', 'c']), [
    [picked('a'), 1, false],
    [picked('a', 'b'), 2, false],
    [picked('a', 'b', 'c'), 3, true],
    [picked('a', 'd'), 0.5, false],
    [picked('a', 'b', 'c', 'd'), 2.5, false],
    [picked('d'), 0, false, 'the floor is 0 unless the rule says otherwise'],
  ]);
  check(t, choice(1, { mode: 'PARTIAL' }, ['a', 'b', 'c']), [
    [picked('a'), 0.333333, false],
    [picked('a', 'b'), 0.666667, false],
    [picked('a', 'b', 'c', 'd'), 1, true, 'ticking everything without a penalty is full marks'],
  ]);
  check(t, choice(1, { mode: 'PARTIAL', incorrectPenalty: 1, minScore: -0.5 }, ['a']), [
    [picked('b'), -0.5, false, 'the floor may lie below zero'],
    [picked(), 0, false, 'unanswered is 0, whatever the floor says'],
  ]);
  check(t, choice(1, { mode: 'PARTIAL', minScore: 0.2 }, ['a']), [
    [picked('b'), 0.2, false],
    [picked(), 0, false],
    [undefined, 0, false],
  ]);
});

t.test("the maxScore of a rule scales its result to the question's score", async (t) => {
  check(t, choice(0.5, { mode: 'PARTIAL', maxScore: 4, incorrectPenalty: 1, minScore: -2 }, ['a', 'b']), [
    [picked('a', 'b'), 0.5, true],
    [picked('a'), 0.25, false, '2 of 4'],
    [picked('a', 'c'), 0.125, false, '2 − 1 of 4'],
    [picked('c', 'd'), -0.25, false, '−2 of 4'],
  ]);
  check(t, choice(2, { mode: 'PARTIAL', maxScore: 3 }, ['a', 'b', 'c']), [[picked('a'), 0.666667, false]]);
  check(t, sampleQuestion({ score: 2, scoringRule: { mode: 'EXACT', maxScore: 10 } }), [[picked('a'), 2, true]]);
});

t.test('PARTIAL: a blank statement is neither right nor wrong', async (t) => {
  check(t, group(2, { mode: 'PARTIAL', incorrectPenalty: 0.5 }), [
    [judge('TTTT'), 2, true],
    [judge('TTT-'), 1.5, false],
    [judge('TTT?'), 1.5, false],
    [judge('TTTF'), 1, false],
    [judge('----'), 0, false],
  ]);
});

t.test('the national ladder yields 0, 0.1, 0.25, 0.5 or 1 of the full mark', async (t) => {
  for (const mode of ['THPT_TRUE_FALSE_LADDER', 'TRUE_FALSE_GROUP'] as const) {
    check(t, group(1, { mode, incorrectPenalty: 9, minScore: 0.4 }), [
      [judge('FFFF'), 0, false, 'penalty and floor do not count'],
      [judge('TFFF'), 0.1, false],
      [judge('TTFF'), 0.25, false],
      [judge('TTTF'), 0.5, false],
      [judge('TTT-'), 0.5, false],
      [judge('TTTT'), 1, true],
      [judge('----'), 0, false],
    ]);
    check(t, group(0.3, { mode }), [[judge('TFFF'), 0.03, false]]);
  }
});

t.test('a group of another size is scored equally per statement or by its own ladder', async (t) => {
  check(t, group(1, { mode: 'TRUE_FALSE_GROUP' }, 3), [
    [judge('TFF'), 0.333333, false],
    [judge('TTF'), 0.666667, false],
    [judge('TTT'), 1, true],
  ]);
  check(t, group(2, { mode: 'TRUE_FALSE_GROUP', ladder: [0.1, 0.2, 0.9] }, 2), [
    [judge('FF'), 0.2, false],
    [judge('TF'), 0.4, false],
    [judge('TT'), 1.8, false, 'a ladder that ends below 1 never gives full score'],
    [judge('--'), 0, false],
  ]);
});

t.test('SHORT_TEXT compares a text with the accepted texts and numbers', async (t) => {
  const answerKey = { acceptedTexts: ['Hà Nội', 'Thăng Long'] };
  const text: Partial<Question> = { type: 'SHORT_TEXT', options: [], answerKey };
  check(t, sampleQuestion({ ...text, scoringRule: { mode: 'SHORT_TEXT' } }), [
    [typed('  hÀ   nỘI '), 1, true],
    [typed('thăng long'), 1, true],
    [typed('Ha Noi'), 0, false, 'accents count'],
    [typed(' \u00a0 '), 0, false],
  ]);
  check(t, sampleQuestion({ ...text, scoringRule: { mode: 'SHORT_TEXT', caseSensitive: true } }), [
    [typed('Hà Nội'), 1, true],
    [typed('hà nội'), 0, false],
  ]);
  const both = { acceptedTexts: ['một phần hai'], numericAnswers: [{ value: 0.5, tolerance: 0.01 }] };
  check(t, sampleQuestion({ ...text, answerKey: both, scoringRule: { mode: 'SHORT_TEXT' } }), [
    [typed('0,51'), 1, true, 'a number is held against the numbers too'],
    [typed('MỘT PHẦN HAI'), 1, true],
    [typed('0.52'), 0, false],
  ]);
  check(t, sampleQuestion({ ...text, answerKey: both, scoringRule: { mode: 'EXACT' } }), [
    [typed('Một phần hai'), 1, true],
    [typed('0.51'), 1, true, 'EXACT of a text is SHORT_TEXT'],
    [typed('0.52'), 0, false],
  ]);
  check(t, sampleQuestion({ ...text, answerKey: both, scoringRule: { mode: 'NUMERIC' } }), [
    [typed('0.5'), 1, true],
    [typed('một phần hai'), 0, false],
  ]);
});

t.test('SHORT_TEXT compares what a student typed with what the author meant', async (t) => {
  const answerKey = { acceptedTexts: ["rock'n'roll\u200b", 'Hòa Bình', '\u20137'], numericAnswers: [{ value: -8 }] };
  const short: Partial<Question> = { type: 'SHORT_TEXT', options: [], scoringRule: { mode: 'SHORT_TEXT' } };
  check(t, sampleQuestion({ ...short, answerKey }), [
    [typed('Rock\u2019n\u2019roll'), 1, true],
    [typed('hoà\u2060 bình'), 1, true],
    [typed('hoá bình'), 0, false],
    [typed('-7'), 1, true],
    [typed('\u22128,0\ufeff'), 1, true],
    [typed('\u200b\ufeff'), 0, false],
    [typed(`-7${'\ufe0f'.repeat(30)}`), 1, true],
    [typed(`-7${'\ufe0f'.repeat(31)}`), 0, false, 'a run of marks matches nothing, even if they show nothing'],
    [typed(`-8${'\ufe0f'.repeat(31)}`), 0, false],
  ]);
  const unseen = { acceptedTexts: ['\u200b'] };
  check(t, sampleQuestion({ ...short, answerKey: unseen }), [
    [typed('\ufeff'), 0, false, 'a blank answer meets no old key'],
  ]);
});

t.test('SHORT_TEXT with a tolerance also compares accepted texts as numbers', async (t) => {
  const ask = (scoringRule: ScoringRule, acceptedTexts: string[], numericAnswers: { value: number }[] = []) =>
    sampleQuestion({ type: 'SHORT_TEXT', options: [], scoringRule, answerKey: { acceptedTexts, numericAnswers } });
  check(t, ask({ mode: 'SHORT_TEXT' }, ['0,5']), [
    [typed('0,5'), 1, true],
    [typed('0.5'), 0, false, 'without a tolerance it is a text'],
  ]);
  check(t, ask({ mode: 'SHORT_TEXT', tolerance: 0 }, ['0,5', ' 5 cm', '1/2']), [
    [typed('.50'), 1, true],
    [typed('5e-1'), 1, true],
    [typed('0.5000000000000000000001'), 0, false, 'in exact decimals'],
    [typed('5'), 0, false, 'a text that only begins with a number is a text'],
    [typed('5 CM'), 1, true],
  ]);
  check(t, ask({ mode: 'SHORT_TEXT', tolerance: 0.1 }, ['3'], [{ value: 7 }]), [
    [typed('3,1'), 1, true],
    [typed('2.8999'), 0, false],
    [typed('7.1'), 1, true, 'the numbers of the key still count'],
  ]);
  check(t, ask({ mode: 'SHORT_TEXT', tolerance: 0.1, toleranceType: 'RELATIVE' }, ['\u2212200']), [
    [typed('-220'), 1, true],
    [typed('-220.1'), 0, false],
  ]);
  const digits = `0.${'1'.repeat(300)}`;
  check(t, ask({ mode: 'SHORT_TEXT', tolerance: 0 }, [digits]), [
    [typed(`${digits}0`), 1, true],
    [typed(`${digits}1`), 0, false, 'also beyond the digits of a JSON number'],
  ]);
  check(t, ask({ mode: 'EXACT', tolerance: 0.1 }, ['3.14']), [
    [typed('3,1'), 1, true, 'a tolerance that is sent counts under EXACT too'],
    [typed('3,0'), 0, false],
  ]);
  check(t, ask({ mode: 'EXACT' }, ['3']), [[typed('3,0'), 0, false, 'none is sent']]);
});

t.test('a question of an unknown type is scored by its mode', async (t) => {
  const named = (question: Question): Question => ({ ...question, type: 'OTHER' });
  check(t, named(choice(2, { mode: 'PARTIAL' }, ['a', 'b'])), [[picked('a'), 1, false]]);
  check(t, named(choice(2, { mode: 'EXACT' }, ['a', 'b'])), [[picked('b', 'a'), 2, true]]);
  check(t, named(group(1, { mode: 'THPT_TRUE_FALSE_LADDER' })), [[judge('TTTF'), 0.5, false]]);
  check(t, named(numeric({ mode: 'NUMERIC', tolerance: 0.5 }, { value: 1 })), [[typed('1,5'), 2, true]]);
  const text = (scoringRule: ScoringRule) =>
    named(sampleQuestion({ options: [], scoringRule, answerKey: { acceptedTexts: ['Hà Nội'] } }));
  check(t, text({ mode: 'SHORT_TEXT' }), [[typed('hà nội'), 1, true]]);
  check(t, text({ mode: 'EXACT' }), [[typed('hà  nội'), 1, true]]);
  check(t, text({ mode: 'PARTIAL', incorrectPenalty: 0.25, minScore: -1 }), [
    [typed('hà nội'), 1, true, 'PARTIAL of a text: one part, right or wrong'],
    [typed('Huế'), -0.25, false],
    [typed(' '), 0, false],
  ]);
  check(t, text({ mode: 'MANUAL' }), [[typed('x'), null, null]]);
});

t.test('practice neither earns nor loses points', async (t) => {
  check(t, sampleQuestion({ score: 0 }), [
    [picked('a'), 0, true],
    [picked('b'), 0, false],
    [picked(), 0, false],
  ]);
  const penal = { mode: 'PARTIAL', incorrectPenalty: 1, minScore: -2 } as const;
  for (const rule of [penal, { ...penal, maxScore: 4 }]) {
    check(t, choice(0, rule, ['a', 'b']), [
      [picked('c', 'd'), 0, false],
      [picked('a'), 0, false],
      [picked('a', 'b'), 0, true],
    ]);
  }
  check(t, group(0, { mode: 'THPT_TRUE_FALSE_LADDER' }), [[judge('TTTT'), 0, true]]);
  t.strictSame(gradeByHand(sampleQuestion({ score: 0 }), 0), { isCorrect: true, score: 0 });
});

t.test('NUMERIC: a tolerance is inclusive and computed in exact decimals', async (t) => {
  check(t, numeric({ mode: 'NUMERIC', tolerance: 0.1 }, { value: 0.3 }), [
    [typed('0.2'), 2, true],
    [typed('0,4'), 2, true],
    [typed('0.1999999999999'), 2, true, 'within the error of an importer'],
    [typed('0.1999999999996'), 0, false],
    [typed('4e-1'), 2, true],
    [typed('abc'), 0, false],
    [typed(''), 0, false],
  ]);
  check(t, numeric({ mode: 'NUMERIC' }, { value: 0 }), [
    [typed(' '), 0, false, 'blank never equals 0'],
    [typed('-0'), 2, true],
    [typed('0.000'), 2, true],
    [typed('1e-400'), 0, false],
  ]);
  check(t, numeric({ mode: 'NUMERIC', tolerance: 5 }, { value: 10, tolerance: 0 }, { value: 100 }), [
    [typed('11'), 0, false, "a number's own tolerance wins over the rule's"],
    [typed('10'), 2, true],
    [typed('105'), 2, true],
  ]);
  check(t, numeric({ mode: 'NUMERIC', tolerance: 0.01, toleranceType: 'RELATIVE' }, { value: -200 }), [
    [typed('-202'), 2, true],
    [typed('-198'), 2, true],
    [typed('-202.0001'), 0, false],
    [typed('200'), 0, false],
  ]);
  check(t, numeric({ mode: 'EXACT', tolerance: 5 }, { value: 10, tolerance: 5 }), [
    [typed('15.0'), 2, true, 'EXACT of a number is NUMERIC'],
    [typed('15.1'), 0, false],
  ]);
  check(t, numeric({ mode: 'EXACT', tolerance: 0.05 }, { value: 3.14 }), [[typed('3,1'), 2, true]]);
  check(t, numeric({ mode: 'EXACT' }, { value: 0.1 + 0.2 }), [
    [typed('0.3'), 2, true, 'as it reads at 15 digits'],
    [typed('0.30000000000000004'), 2, true, 'and as it is'],
    [typed('0.30000000000000003'), 0, false],
  ]);
  check(t, numeric({ mode: 'NUMERIC' }, { value: 0.2, tolerance: 0.09999999999999999 }), [
    [typed('0.3'), 2, true],
    [typed('0.1'), 2, true],
    [typed('0.31'), 0, false],
  ]);
});

t.test('a question scored by hand is pending if answered, and scores 0 if unanswered', async (t) => {
  for (const mode of ['MANUAL', 'ESSAY'] as const) {
    check(t, sampleQuestion({ type: 'ESSAY', options: [], answerKey: {}, scoringRule: { mode } }), [
      [typed('Bài làm'), null, null],
      [typed('<p><img src="x"></p>'), null, null, 'a picture is an answer'],
      [typed(' \n'), 0, false],
      [typed('<p><br></p>\ufeff'), 0, false, 'the empty page of an editor'],
      [undefined, 0, false],
    ]);
  }
  check(t, sampleQuestion({ scoringRule: { mode: 'MANUAL' }, answerKey: {} }), [
    [picked('a'), null, null, 'MANUAL fits any type'],
    [picked(), 0, false],
  ]);
  t.strictSame(gradeByHand(sampleQuestion({ score: 2 }), 2), { isCorrect: true, score: 2 });
  t.strictSame(gradeByHand(sampleQuestion({ score: 2 }), 1.23456789), { isCorrect: false, score: 1.234568 });
  t.strictSame(gradeByHand(sampleQuestion({ score: 2 }), 1.9999999), { isCorrect: true, score: 2 });
});

t.test('a full mark is the score of the question, and is decided before rounding', async (t) => {
  for (const score of [0.0000001, 10 / 3, 5e-324, 1e300])
    check(t, sampleQuestion({ score }), [[picked('a'), score, true]]);
  check(t, choice(0.0000009, { mode: 'PARTIAL', incorrectPenalty: 0.0000001 }, ['a']), [
    [picked('a', 'b'), 0.0000009, false, 'rounding does not exceed it'],
  ]);
  const nearly = choice(1, { mode: 'PARTIAL', incorrectPenalty: 0.0000001 }, ['a']);
  check(t, nearly, [[picked('a', 'b'), 1, false]]);
});
