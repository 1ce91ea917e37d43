import { parseArgs } from 'node:util';
import { readCosts, writeCosts } from '#scripts/generate/capacity/costs.ts';
import { type Load, sizeOf, sizingText, USUAL_LOAD } from '#scripts/generate/capacity/sizing.ts';
import { measureCosts } from './capacity/measure.ts';

/**
 * `npm run capacity`: prints the processes, the load of MongoDB and the disk for an exam, from the measured costs of each operation.
 * `--measure` measures the costs again, which takes minutes on a quiet machine. Exits with 2 if an option is invalid.
 */
const USAGE = `usage: npm run capacity -- [--students 10000] [--saves-per-minute 2] [--shards 1] [--attempts-per-term 20]
       npm run capacity -- --measure`;

// The stores of a measurement are killed when this process exits.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));

try {
  const { values } = parseArgs({
    options: {
      help: { type: 'boolean', short: 'h' },
      students: { type: 'string', default: '10000' },
      'saves-per-minute': { type: 'string', default: String(USUAL_LOAD.savesPerMinute) },
      shards: { type: 'string', default: '1' },
      'attempts-per-term': { type: 'string', default: String(USUAL_LOAD.attemptsPerTerm) },
      measure: { type: 'boolean' },
    },
  });
  const number = (name: 'students' | 'saves-per-minute' | 'shards' | 'attempts-per-term') => {
    const value = Number(values[name]);
    if (!(value > 0)) throw new Error(`--${name} must be a positive number`);
    return value;
  };
  if (values.help === true) console.log(USAGE);
  else if (values.measure === true) {
    writeCosts(await measureCosts((line) => console.error(line)));
    console.log('Written: scripts/generate/capacity/costs.json. `npm run generate` writes docs/capacity.md.');
  } else {
    const load: Load = {
      ...USUAL_LOAD,
      students: number('students'),
      savesPerMinute: number('saves-per-minute'),
      shards: Math.ceil(number('shards')),
      attemptsPerTerm: number('attempts-per-term'),
    };
    console.log(sizingText(load, sizeOf(load, readCosts().costs)));
  }
  process.exit();
} catch (error) {
  console.error(`error: ${error instanceof Error ? error.message : error}\n${USAGE}`);
  process.exit(2);
}
