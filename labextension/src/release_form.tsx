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
  /** Why the kernel whose row asked, or none at all, can be parked; empty where nobody said so. */
  refusal: string;
  /** Called with what is chosen, at once and on every change; null while nothing can be. */
  onChange: (wish: ReleaseWish | null) => void;
  trans: TranslationBundle;
}

/** The levels of release as radio buttons, each with what it does and what is lost. */
export function ReleaseForm({ snapshot, kernelId, refusal, onChange, trans }: IFormProps): React.JSX.Element {
  const choices = releaseChoices(snapshot, trans);
  const [kernel, setKernel] = React.useState(proposedKernel(snapshot, kernelId));
  const [level, setLevel] = React.useState<string | null>(null);
  const isRefused = refusal !== '' && (kernelId === null || kernelId === kernel?.id);
  const why = (choice: IReleaseChoice): string =>
    isRefused && choice.level === 'park'
      ? trans.__('Not possible now; see above.')
      : obstacle(choice, kernel, trans);
  const possible = choices.filter(choice => why(choice) === '');
  // The user's choice while it can be done, else the first that can.
  const chosen = possible.find(choice => choice.level === level) ?? possible[0] ?? null;
  // Before anything is painted: a quick Enter must not find nothing chosen.
  React.useLayoutEffect(() => {
    onChange(chosen && { level: chosen.level, kernel_id: chosen.needsKernel ? (kernel?.id ?? null) : null });
  }, [chosen?.level, kernel?.id]);
  return (
    <div className="jp-gpushare-ReleaseForm" data-testid="gpushare-release-form">
      <KernelList snapshot={snapshot} kernel={kernel} onChoose={setKernel} trans={trans} />
      {isRefused && (
        <p className="jp-gpushare-ReleaseForm-refusal" role="note" data-testid="gpushare-refusal">
          {refusal}
        </p>
      )}
      <fieldset>
        <legend>{trans.__('How to give GPU memory back')}</legend>
        {choices.map(choice => (
          <Choice
            key={choice.level}
            choice={choice}
            isChosen={choice.level === chosen?.level}
            obstacle={why(choice)}
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
