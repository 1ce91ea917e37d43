import { BSON, type Document } from 'mongodb';
import type { Attempt, AttemptEvent } from '#shared/attempt/attempt.ts';
import type { HeadFacts } from '#shared/attempt/redact.ts';

/** An attempt as MongoDB has returned it: bytes, of which a reader decodes what it needs. */
export class StoredAttempt {
  readonly bytes: Buffer;
  readonly #top: Document;

  /** @param bytes BSON that no other message shares, because parts of it are kept */
  constructor(bytes: Buffer) {
    this.bytes = bytes;
    this.#top = BSON.deserialize(bytes, { raw: true });
  }

  /** Random text of the write. */
  get stamp(): unknown {
    return this.#top.stamp;
  }

  /** Number of events in the tail. */
  get tailLength(): number {
    return this.#top.events.length;
  }

  /** Returns the id and the events of the tail. */
  tail(): Pick<Attempt, '_id' | 'events'> {
    const events = (this.#top.events as Buffer[]).map((event) => BSON.deserialize(event) as AttemptEvent);
    return { _id: this.#top._id, events };
  }

  /** Returns the attempt decoded, without the fields that the command left out. */
  whole(): Attempt {
    return BSON.deserialize(this.bytes) as Attempt;
  }

  /** Returns all fields but answers and events. */
  head(): HeadFacts {
    const { exam, scope, courseContext, ...plain } = this.#top;
    const decoded = courseContext === null ? null : BSON.deserialize(courseContext);
    const parts = { exam: BSON.deserialize(exam), scope: BSON.deserialize(scope), courseContext: decoded };
    return { ...plain, ...parts } as unknown as HeadFacts;
  }

  /** Returns answers by their keys and events in their order, each as BSON. */
  raw(): { answers: Record<string, Buffer>; events: readonly Buffer[]; eventSeq: number } {
    const { answers, events, eventSeq } = this.#top;
    return { answers: BSON.deserialize(answers, { raw: true }), events, eventSeq };
  }
}
