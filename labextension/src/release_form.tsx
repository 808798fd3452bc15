import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import {
  IReleaseChoice,
  kernelOption,
  obstacle,
  proposedKernel,
  releasableKernels,
  releaseChoices
} from './release_choices';
import { ReleaseWish } from './release_flow';
import { Kernel, Snapshot } from './wire';

interface IFormProps {
  snapshot: Snapshot;
  /** The kernel whose row asked, or null. */
  kernelId: string | null;
  /** Called with what is chosen, at once and on every change; null while nothing can be. */
  onChange: (wish: ReleaseWish | null) => void;
  trans: TranslationBundle;
}

/** The levels of release as radio buttons, each with what it does and what is lost. */
export function ReleaseForm({ snapshot, kernelId, onChange, trans }: IFormProps): React.JSX.Element {
  const choices = releaseChoices(trans);
  const [kernel, setKernel] = React.useState(proposedKernel(snapshot, kernelId));
  const [level, setLevel] = React.useState<string | null>(null);
  const chosen = effective(choices, level, kernel, trans);
  // Before anything is painted: a quick Enter must not find nothing chosen.
  React.useLayoutEffect(() => {
    onChange(chosen && { level: chosen.level, kernel_id: chosen.needsKernel ? (kernel?.id ?? null) : null });
  }, [chosen?.level, kernel?.id]);
  return (
    <div className="jp-gpushare-ReleaseForm" data-testid="gpushare-release-form">
      <KernelList snapshot={snapshot} kernel={kernel} onChoose={setKernel} trans={trans} />
      <fieldset>
        <legend>{trans.__('How to give GPU memory back')}</legend>
        {choices.map(choice => (
          <Choice
            key={choice.level}
            choice={choice}
            isChosen={choice.level === chosen?.level}
            obstacle={obstacle(choice, kernel, trans)}
            onChoose={() => {
              setLevel(choice.level);
            }}
          />
        ))}
      </fieldset>
    </div>
  );
}

function Choice(props: {
  choice: IReleaseChoice;
  isChosen: boolean;
  obstacle: string;
  onChoose: () => void;
}): React.JSX.Element {
  const { choice, isChosen, obstacle: why, onChoose } = props;
  return (
    <label className="jp-gpushare-Choice" data-ends={choice.endsKernels} data-disabled={why !== ''}>
      <input
        type="radio"
        name="gpushare-level"
        value={choice.level}
        checked={isChosen}
        disabled={why !== ''}
        onChange={onChoose}
        data-testid={`gpushare-level-${choice.level}`}
      />
      <span>
        <b>{choice.label}</b>
        <span>{why || choice.does}</span>
        {why === '' && <span className="jp-gpushare-Choice-loses">{choice.loses}</span>}
      </span>
    </label>
  );
}

function KernelList(props: {
  snapshot: Snapshot;
  kernel: Kernel | null;
  onChoose: (kernel: Kernel | null) => void;
  trans: TranslationBundle;
}): React.JSX.Element | null {
  const { snapshot, kernel, onChoose, trans } = props;
  const kernels = releasableKernels(snapshot);
  const all = kernel && !kernels.includes(kernel) ? [kernel, ...kernels] : kernels;
  if (all.length === 0) {
    return null;
  }
  return (
    <label className="jp-gpushare-ReleaseForm-kernel">
      {trans.__('Notebook')}
      <select
        value={kernel?.id}
        data-testid="gpushare-release-kernel"
        onChange={event => {
          onChoose(all.find(({ id }) => id === event.target.value) ?? null);
        }}
      >
        {all.map(one => (
          <option key={one.id} value={one.id}>
            {kernelOption(one, trans)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** What is chosen: the user's choice while it can be done, else the first that can. */
function effective(
  choices: IReleaseChoice[],
  level: string | null,
  kernel: Kernel | null,
  trans: TranslationBundle
): IReleaseChoice | null {
  const possible = choices.filter(choice => obstacle(choice, kernel, trans) === '');
  return possible.find(choice => choice.level === level) ?? possible[0] ?? null;
}
