"""A plain Temporal workflow that is no agent and asks people all the same: who is the customer, then the payment.

    python examples/kyc_payment.py      (with a server at TEMPORAL_ADDRESS, by default localhost:7233)

It is listed, decided and audited like an agent: `signoff inbox`, `signoff approve RUN`.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    from signoff import Approval, Approve, AsksPeople, Deadline


@dataclass
class Payment:
    customer: str
    amount: float


@activity.defn
async def pay_out(payment: Payment) -> str:
    return f"paid {payment.amount:.2f} to {payment.customer}"


@workflow.defn
class KycThenPayment(AsksPeople):
    @workflow.run
    async def run(self, payment: Payment) -> str:
        known = Approval(
            tool="check_customer",
            arguments={"customer": payment.customer},
            when="tool",
            because="a new customer",
        )
        if not isinstance(await self.desk.ask("payout>kyc", known), Approve):
            return "not paid: the customer is not known"
        release = Approval(tool="pay_out", arguments={"amount": payment.amount}, when="tool")
        decision = await self.desk.ask("payout>payment", release, deadline=Deadline(after=3 * 24 * 3600))
        if not isinstance(decision, Approve):  # rejected, expired, withdrawn: whatever it was, it is no yes
            return "not paid: the payment was not released"
        return await workflow.execute_activity(pay_out, payment, start_to_close_timeout=timedelta(minutes=1))


async def main() -> None:
    from temporalio.client import Client
    from temporalio.envconfig import ClientConfig
    from temporalio.worker import Worker

    import signoff

    config = ClientConfig.load_client_connect_config()
    config["target_host"] = config.get("target_host", "localhost:7233")
    client = await Client.connect(**config, plugins=[signoff.plugin(models={})])
    async with Worker(client, task_queue="kyc", workflows=[KycThenPayment], activities=[pay_out]):
        print(
            await client.execute_workflow(
                KycThenPayment.run, Payment("Li Wei", 250.0), id="kyc-payment", task_queue="kyc"
            )
        )


if __name__ == "__main__":
    asyncio.run(main())
