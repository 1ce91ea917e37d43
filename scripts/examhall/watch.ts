import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { outageInWords } from '#infra/mongo/faults.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { EXIT } from './exit-codes.ts';
import type { Flags } from './operator.ts';

const DEFAULT_SECONDS = 2;
/** Moves a terminal's cursor to the top left corner and clears the screen. */
const CLEAR = '\u001B[H\u001B[J';

/** Where a command prints, and when it must end. */
interface Place {
  output: Writable & { isTTY?: boolean };
  errors: Writable;
  interrupted: AbortSignal;
}

/**
 * Runs `print` once, or with `--watch` at its interval until the operator interrupts it. On a terminal, each print replaces the one before
 * it. An outage of MongoDB is printed and ends nothing, because the operator watches for its end. Returns the exit code of the last print.
 */
export async function repeated(place: Place, flags: Flags, print: () => Promise<number>): Promise<number> {
  if (flags.watch === undefined) return print();
  const seconds = flags.watch === true ? DEFAULT_SECONDS : Number(flags.watch);
  if (!(seconds >= 0.1 && seconds <= 3_600)) {
    place.errors.write('error: --watch must be a number of seconds from 0.1 to 3600\n');
    return EXIT.usage;
  }
  for (;;) {
    if (place.output.isTTY === true) place.output.write(CLEAR);
    const code = await print().catch((error: unknown) => {
      const outage = outageInWords(error);
      if (outage === undefined) throw error;
      place.errors.write(`error: ${outage}\n`);
      return EXIT.failed;
    });
    try {
      await delay(seconds * SECOND, undefined, { signal: place.interrupted });
    } catch {
      return code;
    }
  }
}
