import { escapePointer } from '#shared/kernel/json.ts';
import { endOfString } from '#shared/kernel/large-json.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';

const INFINITE = 'must be a finite number';
const UNFIT = `must be a number that a double holds: at most 17 significant digits, and at most 15 beyond ±${Number.MAX_SAFE_INTEGER}`;

/** Significant digits that a double returns as they were sent, up to its largest safe integer and beyond it. */
const MAX_DIGITS = 17;
const MAX_DIGITS_BEYOND = 15;
/** Characters of the largest number without an exponent that is surely finite. */
const MAX_FINITE_CHARACTERS = 300;

/**
 * Returns the fault of a number that a double cannot hold, or undefined. It would be stored as another number: a key of 100000000000000000001
 * as 1e20, which no student types. The bytes are a number of JSON.
 */
export function numberFault(bytes: Buffer, from: number, to: number): string | undefined {
  const { digits, last, hasExponent } = significantDigits(bytes, from, to);
  const mayBeUnfit = digits > MAX_DIGITS_BEYOND || hasExponent || to - from > MAX_FINITE_CHARACTERS;
  if (!mayBeUnfit) return undefined;
  const value = Math.abs(Number(bytes.toString('latin1', from, to)));
  if (value === Number.POSITIVE_INFINITY) return INFINITE;
  if (digits > MAX_DIGITS || (digits > 0 && value === 0)) return UNFIT;
  // With a 17th digit below 5, a number is a little more than the integer to which it rounds.
  const least = digits === MAX_DIGITS && last < 5 ? Number.MAX_SAFE_INTEGER : Number.MAX_SAFE_INTEGER + 1;
  return digits > MAX_DIGITS_BEYOND && value >= least ? UNFIT : undefined;
}

/** Counts the digits of a number from its first to its last one that is not 0. */
function significantDigits(bytes: Buffer, from: number, to: number) {
  let digits = 0;
  let last = 0;
  let zeros = 0;
  for (let i = from; i < to; i += 1) {
    const byte = bytes[i] ?? 0;
    if ((byte | 0x20) === 0x65) return { digits, last, hasExponent: true };
    if (byte === 0x30) {
      if (digits > 0) zeros += 1;
    } else if (byte > 0x30) {
      digits += zeros + 1;
      last = byte - 0x30;
      zeros = 0;
    }
  }
  return { digits, last, hasExponent: false };
}

/** An open array or object: the index of its current item, or the name of its current member. */
class Level {
  isArray = false;
  index = 0;
  /** True before the name of a member. */
  awaitsName = false;
  /** Positions of the quotes of the name. */
  from = 0;
  to = 0;
  /** The name as a step of a JSON pointer; undefined until it is needed. */
  step: string | undefined = undefined;

  begin(isArray: boolean): void {
    this.isArray = isArray;
    this.index = 0;
    this.awaitsName = !isArray;
  }

  passString(from: number, to: number): void {
    if (!this.awaitsName) return;
    this.awaitsName = false;
    this.from = from;
    this.to = to;
    this.step = undefined;
  }

  passComma(): void {
    if (this.isArray) this.index += 1;
    else this.awaitsName = true;
  }

  stepIn(bytes: Buffer): string {
    if (this.isArray) return String(this.index);
    this.step ??= escapePointer(String(JSON.parse(bytes.toString('utf8', this.from, this.to + 1))));
    return this.step;
  }
}

const [QUOTE, COMMA] = [0x22, 0x2c];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];
/** Bytes that are read in one piece. */
const PIECE_BYTES = 256 * 1_024;

/** Returns the JSON pointers of the values that begin at these positions, which ascend. The bytes are JSON. */
export function* pointersTo(bytes: Buffer, positions: readonly number[]): Pieces<string[]> {
  const pointers: string[] = [];
  const levels: Level[] = [];
  let depth = 0;
  let pauseAt = PIECE_BYTES;
  for (let i = 0; i < bytes.length && pointers.length < positions.length; i += 1) {
    if (i >= pauseAt) {
      pauseAt = i + PIECE_BYTES;
      yield;
    }
    if (i === positions[pointers.length]) {
      pointers.push(
        levels
          .slice(0, depth)
          .map((level) => `/${level.stepIn(bytes)}`)
          .join(''),
      );
    }
    const byte = bytes[i];
    if (byte === QUOTE) {
      const end = endOfString(bytes, i);
      levels[depth - 1]?.passString(i, end);
      i = end;
    } else if (byte === COMMA) {
      levels[depth - 1]?.passComma();
    } else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      const level = levels[depth] ?? new Level();
      levels[depth] = level;
      level.begin(byte === OPEN_ARRAY);
      depth += 1;
    } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) {
      depth -= 1;
    }
  }
  return pointers;
}
