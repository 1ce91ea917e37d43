import { ASSUMED, type Load, type Sizing } from './sizing.ts';

/** Returns a sizing for a terminal. */
export function sizingText(load: Load, sizing: Sizing): string {
  const { processes } = sizing;
  const phases = sizing.phases.map(({ name, rates, doors, commands }) => {
    const each = Object.entries(rates).map(([operation, rate]) => `${round(rate)} ${operation}`);
    return `  ${name.padEnd(14)} ${each.join(', ')} a second: ${doors} web, ${round(commands)} MongoDB commands a second`;
  });
  return [
    `${round(load.students)} students at once, ${load.savesPerMinute} saves a minute each, ${load.shards} shard(s)`,
    ...phases,
    '',
    `processes        web=${processes.web} grading=${processes.grading} gradenotices=${processes.gradenotices}, one of each other type`,
    `MongoDB          ${round(sizing.commandsOfShard)} commands a second on the first shard, ${sizing.pollsOfShard} of them polls`,
    `shards needed    ${sizing.shardsNeeded ?? 'none suffices'}, at ${round(ASSUMED.commandsOfShard)} commands a second for each (assumed)`,
    `connections      ${round(sizing.connections)} to MongoDB, of all processes`,
    `Redis            ${round(sizing.redisCommands)} commands a second, one server`,
    `disk             ${sizing.diskGiB.toFixed(1)} GiB a term on each member of a shard`,
  ].join('\n');
}

/** Returns a number with groups of three digits. */
export function round(number: number): string {
  return Math.ceil(number).toLocaleString('en-US').replaceAll(',', ' ');
}
