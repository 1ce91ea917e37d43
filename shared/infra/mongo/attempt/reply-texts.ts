import { randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { BSON } from 'mongodb';
import { inPieces } from '#infra/process/in-pieces.ts';
import type { Attempt, AttemptEvent, StoredAnswer } from '#shared/attempt/attempt.ts';
import { isErasedAttempt } from '#shared/attempt/erased.ts';
import type { Paper, Question, QuestionOption } from '#shared/attempt/question.ts';
import {
  type AnswerPlace,
  answerForReply,
  answersForReply,
  eventForReply,
  headForReply,
  ownPartOf,
  type PositionedQuestion,
  placesOf,
  questionAt,
  questionForReply,
} from '#shared/attempt/redact.ts';
import { type Viewer, visibilityFor } from '#shared/attempt/visibility.ts';
import { jsonText } from '#shared/kernel/json.ts';
import { atOnce, type Pieces } from '#shared/kernel/pieces.ts';
import type { StoredAttempt } from './stored-attempt.ts';

/**
 * The JSON of replies with an attempt, in parts. The questions of an attempt never change, so they are serialised once. They are those
 * that every reader but an examiner sees, in each status.
 *
 * For a save, an answer or event is serialised again only if its stored bytes have changed; for unchanged bytes its earlier text is
 * used. These texts are what the student may see while the attempt is in progress, and no other status uses them.
 */
export interface ReplyTexts {
  find(attemptId: string): ReplyText | undefined;
  /** Serialises the questions of an attempt that was read whole. */
  add(attempt: Attempt, paper: Paper): Promise<ReplyText>;
}

/** Projection of an attempt without the fields that a reply made of texts does not need from the store. */
export const WITHOUT_FIXED = { order: 0, optionOrders: 0, seed: 0, startKeys: 0 } as const;

/** Opens the cache; `maxBytes` bounds its memory. */
export function openReplyTexts(maxBytes: number): ReplyTexts {
  const cache = new LRUCache<string, ReplyText>({ maxSize: maxBytes });
  return {
    find: (attemptId) => cache.get(attemptId),
    async add(attempt, paper) {
      const questions = await inPieces(questionsText(attempt, paper));
      const text = new ReplyText(questions, placesOf(attempt, paper));
      cache.set(attempt._id, text, { size: text.size });
      return text;
    },
  };
}

/** Returns the JSON of a value with stored texts. */
function textOf(value: object): string {
  return atOnce(jsonText(value)) ?? 'null';
}

function* questionsText(attempt: Attempt, paper: Paper): Pieces<Buffer> {
  const texts: string[] = [];
  for (const [position, paperIndex] of attempt.order.entries()) {
    texts.push(questionText(attempt, questionAt(attempt, paper, paperIndex, position)));
    yield;
  }
  return Buffer.from(`,"questions":[${texts.join()}],"answers":[`);
}

/** The JSON of a question around what differs between attempts, and of each of its options. */
interface QuestionTexts {
  around: readonly string[];
  options: ReadonlyMap<QuestionOption, string>;
}

const QUESTION_TEXTS = new WeakMap<Question, QuestionTexts>();
/** A text that no question contains. */
const MARK = randomUUID();

/** Returns the JSON of a question. A whole class gets the same questions: only their ids, places and orders are written for each student. */
function questionText(attempt: Attempt, placed: PositionedQuestion): string {
  const { id, orderIndex, options, optionOrder } = ownPartOf(attempt, placed);
  const known = QUESTION_TEXTS.get(placed.question) ?? questionTexts(attempt, placed);
  const [first, second, third, fourth, last] = known.around;
  const shown = options.map((option) => known.options.get(option)).join();
  return `${first}${JSON.stringify(id)}${second}${orderIndex}${third}[${shown}]${fourth}${JSON.stringify(optionOrder)}${last}`;
}

function questionTexts(attempt: Attempt, placed: PositionedQuestion): QuestionTexts {
  const { question } = placed;
  const marked = { id: MARK, orderIndex: MARK, options: MARK, optionOrder: MARK };
  const texts = {
    around: JSON.stringify({ ...questionForReply(attempt, placed, false), ...marked }).split(JSON.stringify(MARK)),
    options: new Map(question.options.map((option) => [option, JSON.stringify(option)])),
  };
  QUESTION_TEXTS.set(question, texts);
  return texts;
}

/** Bytes that an attempt with its answers and events takes here, beside its questions; most attempts take less. */
const VARIABLE_BYTES = 48 * 1_024;

/** A stored value and the JSON text of its reply. */
interface Piece {
  bytes: Buffer;
  text: string;
}

/** Returns the earlier text if the stored bytes are the same. */
function unchangedText(earlier: Piece | undefined, bytes: Buffer): string | undefined {
  return earlier?.bytes.equals(bytes) === true ? earlier.text : undefined;
}

/** The parts of one attempt's replies. */
export class ReplyText {
  readonly #questions: Buffer;
  readonly #places: readonly AnswerPlace[];
  #answers: Map<string, Piece> = new Map();
  /** The newest events, and the number of the newest one. */
  #events: readonly Piece[] = [];
  #eventSeq = 0;

  constructor(questions: Buffer, places: readonly AnswerPlace[]) {
    this.#questions = questions;
    this.#places = places;
  }

  /** Estimate of the bytes in memory. */
  get size(): number {
    return this.#questions.length + VARIABLE_BYTES;
  }

  /**
   * Returns the detail of a stored attempt in progress with its newest `eventLimit` events. Returns null if a part of it is stored in
   * rows, if it is too long to be cached, or if its student was erased.
   */
  ofStored(
    stored: StoredAttempt,
    viewer: Viewer,
    { now, eventLimit }: { now: Date; eventLimit: number },
  ): ReplyParts | null {
    const head = stored.head();
    const isShort = stored.bytes.length <= VARIABLE_BYTES / 2;
    if (!isShort || head.status !== 'IN_PROGRESS' || isErasedAttempt(head)) return null;
    const { answers, events, eventSeq } = stored.raw();
    if (events.length < Math.min(eventLimit, eventSeq)) return null;
    const answerTexts = this.#answerTexts(answers);
    const eventTexts = this.#eventTexts(head._id, events.slice(-eventLimit), eventSeq);
    if (answerTexts === null || eventTexts === null) return null;
    return this.#parts(headForReply(head, viewer, now), answerTexts.join(), eventTexts.join(), eventSeq);
  }

  /**
   * Returns the detail of an attempt, in any status, whose long texts and newest events were read from their rows. The viewer must be no
   * examiner of it.
   */
  ofWhole(attempt: Attempt, events: readonly AttemptEvent[], viewer: Viewer, now: Date): ReplyParts {
    const showsGrades = visibilityFor(attempt, viewer, now).resultVisible;
    const answers = JSON.stringify(answersForReply(this.#places, attempt.answers, showsGrades)).slice(1, -1);
    const shown = events.map((event) => textOf(eventForReply(attempt._id, event, showsGrades))).join();
    return this.#parts(headForReply(attempt, viewer, now), answers, shown, attempt.eventSeq);
  }

  #parts(head: object, answers: string, events: string, eventCount: number): ReplyParts {
    const start = JSON.stringify(head).slice(0, -1);
    return [start, this.#questions, `${answers}],"events":[${events}],"eventCount":${eventCount}}`];
  }

  #answerTexts(stored: Record<string, Buffer>): string[] | null {
    const pieces = new Map<string, Piece>();
    const texts: string[] = [];
    for (const place of this.#places) {
      const bytes = stored[place.key];
      if (bytes === undefined) continue;
      let text = unchangedText(this.#answers.get(place.key), bytes);
      if (text === undefined) {
        const answer = BSON.deserialize(bytes) as StoredAnswer;
        if (answer.textRef === true) return null;
        text = JSON.stringify(answerForReply(place, answer, false));
      }
      pieces.set(place.key, { bytes, text });
      texts.push(text);
    }
    this.#answers = pieces;
    return texts;
  }

  #eventTexts(attemptId: string, stored: readonly Buffer[], eventSeq: number): string[] | null {
    const pieces: Piece[] = [];
    // Difference between the positions of one event in the earlier list and in this one.
    const shift = eventSeq - stored.length - (this.#eventSeq - this.#events.length);
    for (const [index, bytes] of stored.entries()) {
      let text = unchangedText(this.#events[index + shift], bytes);
      if (text === undefined) {
        const event = BSON.deserialize(bytes) as AttemptEvent;
        if (event.inRow === true) return null;
        text = textOf(eventForReply(attemptId, event, false));
      }
      pieces.push({ bytes, text });
    }
    this.#events = pieces;
    this.#eventSeq = eventSeq;
    return pieces.map(({ text }) => text);
  }
}

/** JSON text in parts, to be written one after the other. */
export type ReplyParts = readonly (string | Buffer)[];
