import { parseArgs } from 'node:util';
import { readCosts, writeCosts } from './capacity/costs.ts';
import { INBOX_SIZES, measureInboxGrowth } from './capacity/inbox-growth.ts';
import { GROWTH, measureCosts } from './capacity/measure.ts';
import { type Load, sizeOf, USUAL_LOAD } from './capacity/sizing.ts';
import { sizingText } from './capacity/sizing-text.ts';

/**
 * `npm run capacity`: prints the processes, the load of MongoDB and the disk for an exam, from the measured costs of each operation.
 * `--measure` measures the costs again, which takes minutes on a quiet machine, and stores them for docs/capacity.md. Exits with 2 if an
 * option is invalid. `--measure-inbox` measures the inbox beside ever more notifications, of its reader at most 100,000; a million of others
 * take some ten minutes.
 */
const USAGE = `usage: npm run capacity -- [--students 10000] [--saves-per-minute 2] [--shards 1] [--attempts-per-term 20] [--json]
       npm run capacity -- --measure [--attempts 0,10000,100000,1000000]
       npm run capacity -- --measure-inbox [--notifications 0,10000,100000,1000000]`;

function read(): { load: Load; json: boolean; attempts: number[] | null; inbox: number[] | null } {
  const { values } = parseArgs({
    options: {
      help: { type: 'boolean', short: 'h' },
      students: { type: 'string' },
      'saves-per-minute': { type: 'string' },
      shards: { type: 'string' },
      'attempts-per-term': { type: 'string' },
      json: { type: 'boolean' },
      measure: { type: 'boolean' },
      'measure-inbox': { type: 'boolean' },
      attempts: { type: 'string', default: GROWTH.join() },
      notifications: { type: 'string', default: INBOX_SIZES.join() },
    },
  });
  if (values.help === true) {
    console.log(USAGE);
    process.exit(0);
  }
  const number = (name: 'students' | 'saves-per-minute' | 'shards' | 'attempts-per-term', otherwise: number) => {
    const value = Number(values[name] ?? otherwise);
    if (!(value > 0)) throw new Error(`--${name} must be a positive number`);
    return value;
  };
  const load = {
    ...USUAL_LOAD,
    students: number('students', 10_000),
    savesPerMinute: number('saves-per-minute', USUAL_LOAD.savesPerMinute),
    shards: Math.ceil(number('shards', 1)),
    attemptsPerTerm: number('attempts-per-term', USUAL_LOAD.attemptsPerTerm),
  };
  const sizes = (name: 'attempts' | 'notifications') => {
    const numbers = values[name].split(',').map(Number);
    if (numbers.every((size) => Number.isSafeInteger(size) && size >= 0)) return numbers;
    throw new Error(`--${name} must be whole numbers with commas between them`);
  };
  return {
    load,
    json: values.json === true,
    attempts: values.measure === true ? sizes('attempts') : null,
    inbox: values['measure-inbox'] === true ? sizes('notifications') : null,
  };
}

// The stores of a measurement are killed when this process exits.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));

try {
  const { load, json, attempts, inbox } = read();
  const say = (line: string) => console.error(line);
  if (attempts !== null || inbox !== null) {
    const before = readCosts();
    const costs =
      attempts !== null
        ? { ...(await measureCosts(attempts, say)), ...(before.inbox === undefined ? {} : { inbox: before.inbox }) }
        : before;
    writeCosts(inbox === null ? costs : { ...costs, inbox: await measureInboxGrowth(inbox, say) });
    console.log('Written: scripts/capacity/measured.json. `npm run generate` writes docs/capacity.md.');
  } else {
    const sizing = sizeOf(load, readCosts().costs);
    console.log(json ? JSON.stringify({ load, sizing }, null, 2) : sizingText(load, sizing));
  }
  process.exit();
} catch (error) {
  console.error(`error: ${error instanceof Error ? error.message : error}\n${USAGE}`);
  process.exit(2);
}
