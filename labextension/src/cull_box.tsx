import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IPanelActions } from './actions';
import { roughlyLeft, topicOf, warningsOf } from './cull_view';
import { clock } from './format';
import { sentence } from './message';
import { IGpuShareModel } from './model';
import { StateIcon } from './state_box';
import { useTick } from './use_tick';
import { CullWarning } from './wire';

interface ICullBoxProps {
  model: IGpuShareModel;
  actions: IPanelActions;
  trans: TranslationBundle;
}

/** What ends by itself, with a clock that runs and a button that keeps it. Nothing where nothing is about to. */
export function CullBox(props: ICullBoxProps): React.JSX.Element | null {
  const { model, trans } = props;
  const warnings = warningsOf(model);
  useTick(model, warnings[warnings.length - 1]?.at ?? null);
  if (warnings.length === 0) {
    return null;
  }
  return (
    <ul
      className="jp-gpushare-CullBox"
      aria-label={trans.__('About to end by itself')}
      data-testid="gpushare-culling"
    >
      {warnings.map(warning => (
        <Warning key={topicOf(warning)} {...props} warning={warning} />
      ))}
    </ul>
  );
}

function Warning({
  model,
  actions,
  trans,
  warning
}: ICullBoxProps & { warning: CullWarning }): React.JSX.Element {
  const leftS = Math.max(0, warning.at - model.serverNow);
  const keepLabel =
    warning.what === 'kernel'
      ? trans.__('Keep this notebook for 1 hour')
      : trans.__('Keep this server for 1 hour');
  return (
    <li className="jp-gpushare-CullBox-warning" data-what={warning.what}>
      <StateIcon shape="clock" />
      <span>
        {sentence(warning.message, trans)}{' '}
        <b role="timer" aria-live="off" data-testid="gpushare-culling-left">
          {clock(leftS)}
        </b>
        {/* Spoken now and then: a clock that speaks every second is no help. */}
        <span className="jp-gpushare-spoken" role="status" aria-live="polite">
          {roughlyLeft(leftS, trans)}
        </span>
      </span>
      {warning.can_keep && (
        <button
          className="jp-gpushare-Button"
          data-primary
          aria-label={keepLabel}
          title={keepLabel}
          data-testid="gpushare-culling-keep"
          onClick={() => {
            actions.keepFromEnding(warning.what === 'kernel' ? warning.kernel_id : null);
          }}
        >
          {trans.__('Keep 1 h')}
        </button>
      )}
    </li>
  );
}
