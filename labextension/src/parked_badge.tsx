import { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { currentKernel } from './current_kernel';
import { sentence } from './message';
import { IGpuShareModel } from './model';
import { isAway, statusOf } from './parking_view';
import { StateIcon } from './state_box';
import { useModel } from './use_model';
import { WatchingWidget } from './watching_widget';
import { Kernel } from './wire';

/** In a notebook's toolbar, while its GPU memory is parked: says so, and brings it back. */
export class ParkedBadge extends WatchingWidget {
  constructor(
    model: IGpuShareModel,
    private readonly _notebook: Widget,
    private readonly _resume: (kernelId: string) => void,
    private readonly _trans: TranslationBundle
  ) {
    super(model);
    this.addClass('jp-gpushare-BadgeWidget');
  }

  protected override render(): React.JSX.Element {
    return (
      <BadgeText model={this.model} notebook={this._notebook} resume={this._resume} trans={this._trans} />
    );
  }
}

interface IBadgeProps {
  model: IGpuShareModel;
  notebook: Widget;
  resume: (kernelId: string) => void;
  trans: TranslationBundle;
}

function BadgeText({ model, notebook, resume, trans }: IBadgeProps): React.JSX.Element | null {
  useModel(model);
  const kernel = model.contact === 'live' ? currentKernel(model, notebook) : null;
  if (!kernel || !isAway(kernel)) {
    return null;
  }
  return (
    <button
      className="jp-gpushare-ParkedBadge"
      data-status={statusOf(kernel)}
      data-testid="gpushare-parked-badge"
      aria-label={hint(kernel, trans)}
      title={hint(kernel, trans)}
      onClick={() => {
        resume(kernel.id);
      }}
    >
      <StateIcon shape="flake" />
    </button>
  );
}

/** The toolbar is narrow, and what does not fit vanishes from it: the words are in the hint. */
function hint(kernel: Kernel, trans: TranslationBundle): string {
  const says = kernel.parking ? sentence(kernel.parking.message, trans) : '';
  return `${says}\n${trans.__('Click to resume now.')}`;
}
