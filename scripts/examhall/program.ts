import tab from '@bomb.sh/tab/commander';
import { Command, CommanderError, type Help } from 'commander';
import { type CliCommand, type CliCommands, type Flags, optionOf } from './operator.ts';
import { EXIT, EXIT_MEANINGS } from './output.ts';

/** A command line that names a command and its arguments. */
export interface CommandLine {
  name: string;
  command: CliCommand;
  words: string[];
  flags: Flags;
}

/** Where the texts of help and faults are printed. */
type Screen = Record<'out' | 'err', (text: string) => unknown>;

const GROUPS: Readonly<Record<string, string>> = {
  dead: 'dead letters: list, replay, acknowledge or drop commands that failed for good',
  audit: 'operator actions, newest first, and the check of their chain',
  account: 'accounts: show, suspend, unlock, import',
  person: 'the data of one person: count, export, erase',
};
/** Commands that their group runs if no second word is given. */
const DEFAULTS: ReadonlySet<string> = new Set(['audit list']);

/**
 * Reads a command line. Prints help or the fault itself, and then returns the exit code instead: of `--help` and completions, or of
 * invalid arguments.
 */
export function readCommandLine(args: readonly string[], commands: CliCommands, screen: Screen): CommandLine | number {
  let chosen: CommandLine | undefined;
  const program = programOf(commands, screen, (line) => {
    chosen = line;
  });
  try {
    program.parse([...args], { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  }
  // A completion has printed its lines.
  return chosen ?? EXIT.done;
}

function programOf(commands: CliCommands, screen: Screen, choose: (line: CommandLine) => void): Command {
  const program = new Command('examhall')
    .description('Operator commands of examhall.')
    .exitOverride()
    .configureOutput({ writeOut: screen.out, writeErr: screen.err })
    .showHelpAfterError('`--help` after a command explains it');
  const groups = new Map<string, Command>();
  for (const [name, command] of Object.entries(commands)) {
    const words = name.split(' ');
    const word = words.at(-1) ?? name;
    const parent = words.length === 1 ? program : groupOf(words[0] ?? name, program, groups);
    const leaf = parent.command(word, { isDefault: DEFAULTS.has(name) });
    describe(leaf, command);
    leaf.action(() => choose({ name, command, words: [...leaf.args], flags: leaf.opts<Flags>() }));
  }
  tab(program, { completionCommandName: 'completion' });
  // The last step, because a command inherits what its parent has when it is added.
  return program.configureHelp({ formatHelp: (_program, help) => overview(commands, help) });
}

function groupOf(word: string, program: Command, groups: Map<string, Command>): Command {
  const known = groups.get(word);
  if (known !== undefined) return known;
  const group = program.command(word).description(GROUPS[word] ?? '');
  groups.set(word, group);
  return group;
}

function describe(leaf: Command, { summary, details, args = {}, options = [], examples }: CliCommand): void {
  leaf.description(summary);
  for (const [word, meaning] of Object.entries(args)) leaf.argument(word, meaning);
  for (const name of options) leaf.addOption(optionOf(name));
  const more = details === undefined ? [] : ['', details];
  leaf.addHelpText('after', [...more, '', 'Examples:', ...examples.map((line) => `  examhall ${line}`)].join('\n'));
}

/** Returns the help of the whole tool: every command in one list, because an operator searches for a task and knows no group. */
function overview(commands: CliCommands, help: Help): string {
  const items = Object.entries(commands).map(([name, { summary, args = {} }]) => ({
    term: [name, ...Object.keys(args)].join(' '),
    summary,
  }));
  items.push({
    term: 'completion <shell>',
    summary: 'print the completions of a shell: bash, zsh, fish or powershell',
  });
  const width = Math.max(...items.map(({ term }) => term.length));
  const lines = items.map(({ term, summary }) => help.formatItem(term, width, summary, help));
  return ['Usage: examhall <command> [options]', '', 'Operator commands of examhall.', '', ...lines, exitCodes()].join(
    '\n',
  );
}

function exitCodes(): string {
  const rows = Object.entries(EXIT).map(
    ([name, code]) => `  ${`${code}`.padEnd(4)}${EXIT_MEANINGS[name as keyof typeof EXIT]}`,
  );
  return ['', '`examhall help <command>` explains a command.', '', 'Exit codes:', ...rows, ''].join('\n');
}
