import { type Random, seededRandom } from '#scripts/sandbox/random.ts';
import type { Answer, StartQuestion, StatementAnswer } from '../../../clients/typescript/src/index.ts';
import { essayDraft } from './paper.ts';
import type { Student } from './school.ts';

/** A mishap of a save: its reply is lost and the client repeats it, or a second tab then saves with an outdated version. */
export type Mishap = 'none' | 'lost reply' | 'stale tab';

/** One action of a student during the exam. */
export type Step =
  | { kind: 'save'; questionId: string; answer: Answer; mishap: Mishap }
  | { kind: 'event'; type: 'QUESTION_VIEW' | 'TAB_HIDDEN' | 'FOCUS_RETURNED'; metadata: Record<string, unknown> };

/** A wrong option that takes in the weaker half of a school. The others choose a right one. */
export interface Trap {
  questionId: string;
  optionId: string;
}

/** Skill from which a student sees through a trap: the mean of a school. */
const SEES_TRAPS = 0.55;
/** Share of the questions whose last save loses its reply. */
const LOST_REPLIES = 0.01;
/** Share of the saves that replace an earlier answer. */
const STALE_TABS = 0.05;

/**
 * Returns the actions of one student between start and submit. Equal seeds return equal steps. A skipped question has no step. A trap changes
 * the answers to its question, and no other step.
 */
export function answerSheet(
  student: Student,
  questions: readonly StartQuestion[],
  seed: string,
  trap: Trap | null = null,
): Step[] {
  const random = seededRandom(`${seed}:sheet:${student.id}`);
  const steps: Step[] = [];
  for (const [index, question] of questions.entries()) {
    if (random.chance(0.015)) steps.push(...leaveTab(random));
    // Later questions are harder and more often left blank.
    const difficulty = index / questions.length;
    if (random.chance((1 - student.skill) * 0.3 * (0.5 + difficulty))) continue;
    const saves = savesOf(question, student.skill * (1.15 - 0.3 * difficulty), random);
    steps.push(...(trap?.questionId === question.questionId ? intoTrap(saves, student, question, trap) : saves));
  }
  return steps;
}

/** Replaces the options that a student chooses, and leaves the draws of the random numbers as they are. */
function* intoTrap(saves: Iterable<Step>, { skill }: Student, { answerKey }: StartQuestion, { optionId }: Trap) {
  const chosen = skill >= SEES_TRAPS ? (answerKey?.correctOptionIds ?? []) : [optionId];
  for (const step of saves) {
    const isBlank = step.kind !== 'save' || step.answer.selectedOptionIds?.length === 0;
    yield isBlank ? step : { ...step, answer: { selectedOptionIds: [...chosen] } };
  }
}

function* savesOf(question: StartQuestion, chance: number, random: Random): Generator<Step> {
  const drafts = Array.from({ length: draftsOf(question, random) }, () => answerTo(question, chance, random));
  // A few students clear their answer at the end: the blank answer is stored and earns no points.
  if (random.chance(0.008)) drafts.push(blank(question));
  for (const [index, answer] of drafts.entries()) {
    yield { kind: 'save', questionId: question.questionId, answer, mishap: mishapOf(index, drafts.length, random) };
  }
}

/**
 * Loses a reply only for the last draft. The repeated request may be stored late; if it were an earlier draft, the next draft would
 * correctly meet a version conflict.
 */
function mishapOf(index: number, drafts: number, random: Random): Mishap {
  if (index === drafts - 1 && random.chance(LOST_REPLIES)) return 'lost reply';
  return index > 0 && random.chance(STALE_TABS) ? 'stale tab' : 'none';
}

/** Returns the number of saves of a question: two for an essay, otherwise one, or two for one student in twenty-five. */
function draftsOf(question: StartQuestion, random: Random): number {
  if (question.type === 'ESSAY') return 2;
  return random.chance(0.04) ? 2 : 1;
}

function answerTo(question: StartQuestion, chance: number, random: Random): Answer {
  const key = question.answerKey ?? {};
  switch (question.type) {
    case 'TRUE_FALSE_GROUP':
      return {
        statementAnswers: (key.statements ?? []).flatMap(({ statementId, value }): StatementAnswer[] => {
          if (random.chance(0.04)) return random.chance(0.5) ? [] : [{ statementId, value: null }];
          return [{ statementId, value: random.chance(0.35 + 0.65 * chance) ? value : !value }];
        }),
      };
    case 'NUMERIC':
      return { textAnswer: numberText(key.numericAnswers?.[0]?.value ?? 0, random.chance(chance), random) };
    case 'ESSAY':
      return { textAnswer: essayDraft(chance, random) };
    default: {
      const right = key.correctOptionIds ?? [];
      if (random.chance(chance)) return { selectedOptionIds: [...right] };
      return { selectedOptionIds: [random.pick(question.options ?? []).id] };
    }
  }
}

/** Writes a number as students do: decimal comma or point, blanks around it, no leading zero, or a superfluous trailing zero. */
function numberText(value: number, right: boolean, random: Random): string {
  const written = String(right ? value : random.pick([value + 1, value / 2, value * 10, -value]));
  const style = random.below(6);
  if (style === 0) return ` ${written.replace('.', ',')} `;
  if (style === 1) return written;
  if (style === 2) return written.replace(/^0\./, ',');
  if (style === 3) return written.includes('.') ? `${written}0` : `${written},0`;
  return written.replace('.', ',').replace('-', '\u2212');
}

function blank(question: StartQuestion): Answer {
  if (question.type === 'TRUE_FALSE_GROUP') return { statementAnswers: [] };
  return question.type === 'SINGLE_CHOICE' ? { selectedOptionIds: [] } : { textAnswer: '   ' };
}

function leaveTab(random: Random): Step[] {
  const awaySeconds = 1 + random.below(20);
  return [
    { kind: 'event', type: 'TAB_HIDDEN', metadata: { reason: 'visibilitychange' } },
    { kind: 'event', type: 'FOCUS_RETURNED', metadata: { awaySeconds } },
  ];
}
