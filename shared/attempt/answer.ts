import { type FaultDetail, isRejection, type Rejection } from '#shared/kernel/errors.ts';
import type { Optional } from '#shared/kernel/json.ts';
import type { AnswerContent } from './attempt.ts';
import { ANSWER_KIND, type AnswerKind, type Question, ruleTypeOf } from './question.ts';

interface AnswerFields {
  selectedOptionIds?: Optional<readonly string[]>;
  statementAnswers?: Optional<readonly { statementId: string; value?: Optional<boolean> }[]>;
  textAnswer?: Optional<string>;
}

/** The body of a save that passed its schema. The answer is either in `answer` or at the top level, never in both. */
export interface SaveBody extends AnswerFields {
  questionId: string;
  answer?: Optional<AnswerFields>;
  clientVersion?: Optional<number>;
  sourceTabId?: Optional<string>;
}

/** An answer that was read but not yet checked against its question. */
export interface PickedAnswer {
  /** Contains at most one kind, the filled one. If it is empty, the answer is empty and the question decides its kind. */
  content: AnswerContent;
  /** JSON pointer of the answer in the body, used in the paths of faults. */
  base: '/answer' | '';
}

const FIELD_OF_KIND = {
  selected: 'selectedOptionIds',
  statements: 'statementAnswers',
  text: 'textAnswer',
} as const satisfies Record<AnswerKind, keyof AnswerFields>;

/**
 * Reads the answer of a save. Rejects faults that do not depend on the question: no answer, two answers, or a repeated
 * statement. Some clients always send all three members, so an empty member beside a filled one is treated as missing.
 */
export function pickAnswer(body: SaveBody): PickedAnswer | Rejection {
  const nested = body.answer ?? null;
  if (nested !== null && kindsOf(contentOf(body)).length > 0) {
    const message = 'send the answer either under `answer` or at the top level';
    return refused([{ path: '/answer', message }]);
  }
  const fields = nested ?? body;
  const base = nested === null ? '' : '/answer';
  const content = contentOf(fields);
  if (!namesAnswer(fields) || kindsOf(content).length > 1) {
    const message = 'exactly one of `selectedOptionIds`, `statementAnswers` and `textAnswer` is required';
    return refused([{ path: base, message }]);
  }
  const repeated = duplicateStatementFaults(content, base);
  return repeated.length > 0 ? refused(repeated) : { content, base };
}

/** Returns the answer faults of a body that failed its schema. Returns [] if a `known` schema fault concerns the answer. */
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

/**
 * Checks a picked answer against its question: its kind must fit the type, and its ids must be in the question. An empty
 * answer clears an earlier one; it is returned with the kind that fits.
 */
export function fitAnswer({ content, base }: PickedAnswer, question: Question): AnswerContent | Rejection {
  const kind = ANSWER_KIND[ruleTypeOf(question)];
  const field = FIELD_OF_KIND[kind];
  const [sent] = kindsOf(content);
  if (sent === undefined) return emptyAnswer(kind);
  if (sent !== kind) {
    const message = `a ${question.type} question requires \`${field}\``;
    return refused([{ path: `${base}/${FIELD_OF_KIND[sent]}`, message }]);
  }
  const details = [...unknownIds(content, question, base)];
  if (question.type === 'SINGLE_CHOICE' && new Set(content.selected).size > 1) {
    details.push({ path: `${base}/${field}`, message: 'must contain at most one option for a SINGLE_CHOICE question' });
  }
  return details.length > 0 ? refused(details) : content;
}

/** Returns the size of the answer in bytes of JSON. Both the size limit of an attempt and TEXT_ROW_BYTES use this size. */
export function answerBytes(content: AnswerContent): number {
  return Buffer.byteLength(JSON.stringify(content));
}

/** Returns the answer as it was sent, with its own kind only. @throws if a text in a row of its own was not loaded. */
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

/** Returns the members that are not empty. */
function contentOf(fields: AnswerFields): AnswerContent {
  const selected = fields.selectedOptionIds ?? [];
  const statements = fields.statementAnswers ?? [];
  const text = fields.textAnswer ?? '';
  return {
    ...(selected.length === 0 ? {} : { selected: [...selected] }),
    ...(statements.length === 0
      ? {}
      : { statements: statements.map(({ statementId, value }) => ({ statementId, value: value ?? null })) }),
    ...(text === '' ? {} : { text }),
  };
}

/**
 * Returns true if these fields contain an answer, even an empty one. A null member is treated as missing. If all three members
 * are null, however, the answer is empty.
 */
function namesAnswer({ selectedOptionIds, statementAnswers, textAnswer }: AnswerFields): boolean {
  const members = [selectedOptionIds, statementAnswers, textAnswer];
  return members.some((member) => member != null) || members.every((member) => member === null);
}

function emptyAnswer(kind: AnswerKind): AnswerContent {
  switch (kind) {
    case 'selected':
      return { selected: [] };
    case 'statements':
      return { statements: [] };
    case 'text':
      return { text: '' };
  }
}

function kindsOf(content: AnswerContent): AnswerKind[] {
  return (['selected', 'statements', 'text'] as const).filter((kind) => content[kind] !== undefined);
}

function duplicateStatementFaults({ statements = [] }: AnswerContent, base: string): FaultDetail[] {
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
    if (!ids.has(id)) yield { path: `${base}/selectedOptionIds/${index}`, message: 'unknown option id' };
  }
  for (const [index, { statementId }] of (content.statements ?? []).entries()) {
    const path = `${base}/statementAnswers/${index}/statementId`;
    if (!ids.has(statementId)) yield { path, message: 'unknown statement id' };
  }
}

function refused(details: FaultDetail[]): Rejection {
  return { rejected: 'VALIDATION_FAILED', details };
}
