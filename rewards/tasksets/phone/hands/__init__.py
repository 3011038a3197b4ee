"""The oracle that acts through the screen: what a person's hand would do next on a virtual phone."""

from rewards.tasksets.phone.hands.task import PhoneTaskByHand

__all__ = ["PhoneTaskByHand"]
