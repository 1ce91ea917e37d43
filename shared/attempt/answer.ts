import { type FaultDetail, isRejection, type Rejection } from '#shared/kernel/errors.ts';
import type { Optional } from '#shared/kernel/json-object.ts';
import type { AnswerContent } from './attempt.ts';
import { ANSWER_KIND, type Question } from './question.ts';

interface AnswerFields {
  selectedOptionIds?: Optional<readonly string[]>;
  statementAnswers?: Optional<readonly { statementId: string; value?: Optional<boolean> }[]>;
  textAnswer?: Optional<string>;
}

/** The body of a save, its shape already validated. The answer stands in `answer` or at the top, never in both. */
export interface SaveBody extends AnswerFields {
  questionId: string;
  answer?: Optional<AnswerFields>;
  clientVersion?: Optional<number>;
  sourceTabId?: Optional<string>;
}

/** An answer that has been read but not yet held against its question. */
export interface PickedAnswer {
  content: AnswerContent;
  /** Where it stood in the body, for the paths of faults: `/answer` or nothing. */
  base: '/answer' | '';
}

export type AnswerKind = (typeof ANSWER_KIND)[Question['type']];

const FIELD_OF_KIND = {
  selected: 'selectedOptionIds',
  statements: 'statementAnswers',
  text: 'textAnswer',
} as const satisfies Record<AnswerKind, keyof AnswerFields>;

/** What of a save's body is a fault whatever the question is: no answer, two of them, or a statement judged twice. */
export function pickAnswer(body: SaveBody): PickedAnswer | Rejection {
  const top = contentOf(body);
  const nested = body.answer == null ? null : contentOf(body.answer);
  const atTop = kindsOf(top);
  if (nested !== null && atTop.length > 0) {
    const message = 'the answer stands either in /answer or at the top level, not in both';
    return refused([{ path: '/answer', message }]);
  }
  const content = nested ?? top;
  const base = nested === null ? '' : '/answer';
  if (kindsOf(content).length !== 1) {
    const message = 'exactly one of selectedOptionIds, statementAnswers and textAnswer is required';
    return refused([{ path: base, message }]);
  }
  const repeated = repeatedStatements(content, base);
  return repeated.length > 0 ? refused(repeated) : { content, base };
}

/** The same of a body that is refused already, beside the `known` faults of its shape: none where those are about the answer. */
export function answerFaults(body: unknown, known: readonly FaultDetail[]): readonly FaultDetail[] {
  const isBroken = known.some(({ path }) => path === '' || ANSWER_PATHS.has(path.split('/', 2).join('/')));
  if (isBroken || typeof body !== 'object' || body === null) return [];
  const picked = pickAnswer(body as SaveBody);
  return isRejection(picked) ? (picked.details ?? []) : [];
}

const ANSWER_PATHS: ReadonlySet<string> = new Set([
  '/answer',
  ...Object.values(FIELD_OF_KIND).map((name) => `/${name}`),
]);

/** Holds a picked answer against its question: the kind that fits the type, and ids that the question has. */
export function fitAnswer({ content, base }: PickedAnswer, question: Question): AnswerContent | Rejection {
  const kind = ANSWER_KIND[question.type];
  const field = FIELD_OF_KIND[kind];
  if (content[kind] === undefined) {
    const sent = kindsOf(content).map((other) => ({
      path: `${base}/${FIELD_OF_KIND[other]}`,
      message: `a ${question.type} question takes ${field}`,
    }));
    return refused(sent);
  }
  const details = [...unknownIds(content, question, base)];
  if (question.type === 'SINGLE_CHOICE' && new Set(content.selected).size > 1) {
    details.push({ path: `${base}/${field}`, message: 'a SINGLE_CHOICE question takes one option' });
  }
  return details.length > 0 ? refused(details) : content;
}

/** What the answer takes up, in bytes of JSON: the measure of an attempt's total, and of what needs a row of its own. */
export function answerBytes(content: AnswerContent): number {
  return Buffer.byteLength(JSON.stringify(content));
}

/** The answer as it was sent; only the kind that was given. */
export function answerFields(content: AnswerContent): {
  selectedOptionIds?: string[];
  statementAnswers?: { statementId: string; value: boolean | null }[];
  textAnswer?: string;
} {
  if (content.selected !== undefined) return { selectedOptionIds: content.selected };
  if (content.statements !== undefined) return { statementAnswers: content.statements };
  if (content.text !== undefined) return { textAnswer: content.text };
  throw new Error('an answer was read without its text');
}

function contentOf(fields: AnswerFields): AnswerContent {
  const { selectedOptionIds, statementAnswers, textAnswer } = fields;
  return {
    ...(selectedOptionIds == null ? {} : { selected: [...selectedOptionIds] }),
    ...(statementAnswers == null
      ? {}
      : { statements: statementAnswers.map(({ statementId, value }) => ({ statementId, value: value ?? null })) }),
    ...(textAnswer == null ? {} : { text: textAnswer }),
  };
}

function kindsOf(content: AnswerContent): AnswerKind[] {
  return (['selected', 'statements', 'text'] as const).filter((kind) => content[kind] !== undefined);
}

function repeatedStatements({ statements = [] }: AnswerContent, base: string): FaultDetail[] {
  const seen = new Set<string>();
  const faults: FaultDetail[] = [];
  for (const [index, { statementId }] of statements.entries()) {
    const path = `${base}/statementAnswers/${index}/statementId`;
    if (seen.has(statementId)) faults.push({ path, message: 'must appear once' });
    seen.add(statementId);
  }
  return faults;
}

function* unknownIds(content: AnswerContent, question: Question, base: string): Generator<FaultDetail> {
  const ids = new Set(question.options.map((option) => option.id));
  for (const [index, id] of (content.selected ?? []).entries()) {
    if (!ids.has(id)) yield { path: `${base}/selectedOptionIds/${index}`, message: 'is not an option' };
  }
  for (const [index, { statementId }] of (content.statements ?? []).entries()) {
    const path = `${base}/statementAnswers/${index}/statementId`;
    if (!ids.has(statementId)) yield { path, message: 'is not a statement' };
  }
}

function refused(details: FaultDetail[]): Rejection {
  return { rejected: 'VALIDATION_FAILED', details };
}
