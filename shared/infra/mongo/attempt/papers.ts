import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { BSON, type ClientSession } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { inPieces } from '#infra/process/in-pieces.ts';
import { copyPaper, type QuestionInput } from '#shared/attempt/copy-paper.ts';
import type { Paper, Question } from '#shared/attempt/question.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';
import { papers } from './collections.ts';

/** A paper with its id, the SHA-256 of its JSON. */
export interface IdentifiedPaper {
  id: string;
  paper: Paper;
  /** Characters of its JSON. */
  length: number;
  /** Size in MongoDB, in bytes of BSON; at most some KiB too large. */
  bytes: number;
}

/** Stores papers under their hash and caches the most recently used ones in memory. */
export interface Papers {
  /**
   * Copies the questions of a start as `copyPaper` does. A whole class starts with the same questions, in the same array: they are copied,
   * checked and measured for its first student alone.
   */
  copy(questions: readonly QuestionInput[]): Pieces<IdentifiedPaper | Rejection>;
  /**
   * Stores the paper if it is new, and returns its id. The paper must be durable before the attempt that names it is inserted.
   */
  store(paper: IdentifiedPaper): Promise<string>;
  /**
   * Returns the paper. A read in a `session` shows every paper that the session has seen an attempt of. Throws if it does not exist: the
   * paper of an attempt is never deleted.
   */
  find(id: string, session?: ClientSession): Promise<Paper>;
}

/** `cacheBytes` bounds the memory of cached papers, by the length of their JSON or of their stored form. */
export function openPapers(mongo: Mongo, cacheBytes: number): Papers {
  const cache = new LRUCache<string, Paper>({ maxSize: cacheBytes });
  const copies = new WeakMap<readonly QuestionInput[], IdentifiedPaper>();
  const loading = new Map<string, Promise<Paper>>();

  async function load(id: string, session?: ClientSession): Promise<Paper> {
    const stored = await papers(mongo).findOne({ _id: id }, { ...readIn(session), raw: true });
    if (stored === null) throw new Error(`paper ${id} is missing`);
    // With `raw`, the driver returns the bytes of the document. Its types are those without.
    const bytes = stored as unknown as Buffer;
    const paper = await inPieces(decoded(bytes));
    cache.set(id, paper, { size: bytes.length });
    return paper;
  }

  return {
    *copy(questions) {
      const known = copies.get(questions);
      if (known !== undefined) return known;
      const copied = yield* copyPaper(questions);
      if (isRejection(copied)) return copied;
      const paper = yield* identified(copied.paper);
      copies.set(questions, paper);
      return paper;
    },
    async store({ id, paper, length }) {
      if (cache.get(id) !== undefined) return id;
      try {
        await papers(mongo).insertOne({ _id: id, ...paper });
      } catch (error) {
        if (!isDuplicateKey(error)) throw error;
      }
      cache.set(id, paper, { size: length });
      return id;
    },
    async find(id, session) {
      const cached = cache.get(id);
      if (cached !== undefined) return cached;
      // Concurrent reads share one query: a thousand first saves of one exam read its paper once.
      const already = loading.get(id);
      // Another caller has seen less than this session, and may not find the paper yet.
      if (already !== undefined) return session === undefined ? already : already.catch(() => load(id, session));
      const read = load(id, session).finally(() => loading.delete(id));
      loading.set(id, read);
      return read;
    },
  };
}

/** Returns the paper with its id and its sizes. */
export function* identified(paper: Paper): Pieces<IdentifiedPaper> {
  const { questions, ...rest } = paper;
  const { hash, length } = yield* hashOf(questions, rest);
  return { id: hash, paper, length, bytes: yield* bytesOf(paper) };
}

/** Returns the SHA-256 of the JSON of an object that has `questions` first, and the length of that text. */
function* hashOf(questions: readonly object[], rest: object): Pieces<{ hash: string; length: number }> {
  const hash = createHash('sha256');
  let length = 0;
  const add = (text: string) => {
    hash.update(text);
    length += text.length;
  };
  add('{"questions":[');
  for (const [index, question] of questions.entries()) {
    add(`${index === 0 ? '' : ','}${JSON.stringify(question)}`);
    yield;
  }
  const others = JSON.stringify(rest).slice(1);
  add(others === '}' ? ']}' : `],${others}`);
  return { hash: hash.digest('hex'), length };
}

/** Returns the paper in the bytes of its document. */
function* decoded(bytes: Buffer): Pieces<Paper> {
  const { _id, questions, ...rest } = BSON.deserialize(bytes, { raw: true });
  const decodedQuestions: Question[] = [];
  for (const question of questions as Buffer[]) {
    decodedQuestions.push(BSON.deserialize(question) as Question);
    yield;
  }
  return { questions: decodedQuestions, ...rest };
}

/** Bytes of BSON around the questions of a paper and for each of its numbers, more than there are. */
const BYTES_AROUND = 256;
const BYTES_OF_NUMBER = 20;

function* bytesOf({ questions, orderIndexes = [] }: Paper): Pieces<number> {
  let bytes = BYTES_AROUND + orderIndexes.length * BYTES_OF_NUMBER;
  for (const question of questions) {
    bytes += BSON.calculateObjectSize(question) + BYTES_OF_NUMBER;
    yield;
  }
  return bytes;
}
