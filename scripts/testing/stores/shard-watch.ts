import { PLACEMENTS } from '#infra/mongo/schema/shard-keys.ts';
import { watchProductCommands } from './product-commands.ts';
import { isExcepted } from './shard-exceptions.ts';
import { faultsOf } from './shard-rule.ts';

/**
 * Fails this test process if product code sends a statement that a sharded cluster would refuse or send in turn, or one that goes to every
 * shard without an exception. An error in the reply could become a repeat or a masked 500, so the process names the statement at once
 * and exits with 1 at its end.
 */
export function demandShardKeys(): void {
  const named = new Set<string>();
  watchProductCommands(({ commandName, command }, file) => {
    for (const fault of faultsOf(commandName, command, PLACEMENTS)) {
      if (isExcepted(fault, file)) continue;
      const line = `${fault.collection} ${fault.command} {${fault.shape}} in ${file} ${fault.fault}`;
      if (named.has(line)) continue;
      if (named.size === 0) process.on('exit', failProcess);
      named.add(line);
      process.stderr.write(`error: ${line} (scripts/testing/stores/shard-exceptions.ts has the exceptions)\n`);
    }
  });
}

function failProcess(): void {
  process.exitCode = 1;
}
